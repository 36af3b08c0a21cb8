"""Security state as Kafka keeps it in ZooKeeper: users, quotas."""
