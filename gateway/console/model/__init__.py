"""Content of the pages, computed from snapshots of the HTTP API. Pure: no I/O, no clock, no NiceGUI."""
