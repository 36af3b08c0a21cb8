"""What pages show, computed from snapshots of the HTTP API. Pure: no I/O, no clock, no NiceGUI."""
