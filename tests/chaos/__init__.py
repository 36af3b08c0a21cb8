"""Real clients under random faults, and a checker for their records and commits (docs/chaos.md)."""
