"""Creating, growing and deleting topics."""
