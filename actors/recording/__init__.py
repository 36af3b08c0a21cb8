"""What coordinators leave behind for Spark: the tables ``commits``, ``group_events`` and ``registrations``."""
