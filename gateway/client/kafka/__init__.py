"""A blocking client of Kafka's protocol, for Muster and for a real Kafka."""
