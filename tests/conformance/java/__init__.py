"""Fetch beside Apache Kafka."""
