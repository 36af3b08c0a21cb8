"""Real clients under random faults, and a checker of what became of their records and commits (docs/chaos.md)."""
