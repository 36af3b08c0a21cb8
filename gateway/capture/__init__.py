"""``muster capture``: a proxy between Kafka clients and brokers that records their traffic."""
