"""Security state that the controller alone writes, as Kafka keeps it in ZooKeeper: ACLs, users, quotas."""
