"""The servers of an ensemble that Muster runs itself, each in a process of its own on a node."""
