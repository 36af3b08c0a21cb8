"""Muster beside a real Apache Kafka, and under Kafka's own Java clients and tools. Not installed with the product."""
