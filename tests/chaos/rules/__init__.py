"""The rules, each a pure function from a history to its violations."""
