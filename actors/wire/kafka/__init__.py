"""Kafka's protocol between bytes and Python: frames, readers and writers."""
