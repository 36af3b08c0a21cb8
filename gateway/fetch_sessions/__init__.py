"""Incremental fetch sessions (KIP-227), pure: which partitions a client fetches, without naming them each time."""
