"""Produce, Fetch and the other APIs of records."""
