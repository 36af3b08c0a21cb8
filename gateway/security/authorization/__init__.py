"""Whether a client may do what it requests."""
