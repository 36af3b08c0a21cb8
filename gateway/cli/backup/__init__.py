"""``muster backup`` and ``muster restore``: a copy of everything that a Muster has acknowledged, and back."""
