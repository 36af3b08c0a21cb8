"""Muster next to a real Apache Kafka, and with Kafka's own Java clients and tools. Not installed with the product."""
