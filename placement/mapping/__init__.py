"""The client-to-group mapping: its nodes in ZooKeeper, how it differs from what coordinators hold, and repairs."""
