"""Members of a consumer group whose loop is Muster's: the workers of a pool, and the replicas of a deployment."""
