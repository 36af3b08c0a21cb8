"""``python -m bench.attribution``: whose bytes are these? Ask Muster, and KoP's rule, where the answer is known."""
