"""ZooKeeper: the client, bounded waiting, copies of subtrees, ephemeral nodes."""
