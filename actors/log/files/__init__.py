"""The files of one partition's log, and how they are read back after a crash."""
