"""Background work on a log: flushing, retention, compaction."""
