"""Kafka's Java consumers, on Muster and on Apache Kafka."""
