"""The storage directory, and the commands that read it without asking anybody."""
