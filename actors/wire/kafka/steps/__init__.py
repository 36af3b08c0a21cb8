"""Reads and writes large messages step by step, so that the event loop can do something else in between."""
