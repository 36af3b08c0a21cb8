"""What offsets actors and transactions actors share: a coordinator's partition, its log outside and its core inside."""
