"""Replicas, leaders and log directories beside Apache Kafka."""
