"""Muster side by side with Apache Kafka: the same requests to both, in turn, on the same cores."""
