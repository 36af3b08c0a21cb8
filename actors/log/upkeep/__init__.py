"""What is done with a log beside serving it: flushing, retention, compaction."""
