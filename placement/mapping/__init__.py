"""The client-to-group mapping: its nodes in ZooKeeper, their differences from what coordinators hold, and repairs."""
