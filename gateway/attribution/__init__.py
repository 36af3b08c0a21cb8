"""Which group a fetched byte belongs to: a pure core, without I/O, clock or event loop."""
