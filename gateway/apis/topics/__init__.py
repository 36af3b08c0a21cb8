"""Creating, growing, deleting and describing topics; elections and reassignments of their partitions."""
