"""Parts shared by offsets actors and transactions actors: a coordinator's partition, its log and its core."""
