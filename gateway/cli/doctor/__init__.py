"""``muster doctor``: what a machine, a configuration or a running Muster lacks, and how to mend it."""
