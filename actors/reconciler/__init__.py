"""The reconciler: keeps the client-to-group mapping in ZooKeeper true."""
