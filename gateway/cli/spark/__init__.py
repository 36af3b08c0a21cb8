"""``muster spark`` and ``muster report``."""
