"""``muster capture``: a proxy between Kafka clients and brokers that writes down what they say."""
