"""Starting, draining and stopping a Muster."""
