"""A world of writers from one seed: processes that take over the write-ahead log of one role in a bucket.

Product code (``muster.actors.log.wal``) runs unchanged on virtual time. Processes are paused and killed, requests and
responses get lost, and arrive late: also those of a process that has ended.
"""
