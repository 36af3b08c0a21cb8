"""Metrics that clients push (KIP-714), pure: who pushes what, which requests are in time, which series there are."""
