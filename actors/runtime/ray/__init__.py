"""Ray's internals, as every process of Muster uses them; docs/ray-internals.md lists them."""
