"""The Kafka listener: connections, dispatch by API, and the connections to the actors behind it."""
