"""The files of one partition's log, and their recovery after a crash."""
