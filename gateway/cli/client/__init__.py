"""The Kafka client of the commands: every gateway serves every request, so any of them will do."""
