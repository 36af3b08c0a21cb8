"""What a client must be allowed to do for each API, and what of a request is served if it is not allowed all of it."""
