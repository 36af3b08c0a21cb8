"""Ray's internals, as every process of Muster uses them."""
