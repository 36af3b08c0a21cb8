"""The part of a log that transactions need: what is open, what was aborted, how one ends, and verification."""
