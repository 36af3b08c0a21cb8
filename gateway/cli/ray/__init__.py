"""Ray's internals, as the ``muster`` command uses them; docs/ray-internals.md lists them."""
