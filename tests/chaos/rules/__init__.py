"""The rules, each a pure function from a history to what violates it."""
