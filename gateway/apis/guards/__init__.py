"""Rights that a client needs for each API, and the part of a request that is served without all of them."""
