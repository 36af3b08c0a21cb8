"""How many members a group needs, by its lag."""
