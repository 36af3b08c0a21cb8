"""Whether an actor's process works: pings, the end of one that does not respond, and who watches the controller."""
