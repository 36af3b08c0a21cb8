"""The storage directory, and the commands that read it directly, without a running cluster."""
