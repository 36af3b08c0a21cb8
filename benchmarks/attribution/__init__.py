"""``python -m benchmarks.attribution``: whose bytes are these, by Muster and by KoP's rule, where it is known."""
