"""Ray's internals, as the ``muster`` command uses them."""
