"""Client metrics beside Apache Kafka."""
