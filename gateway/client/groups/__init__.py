"""Groups as an administrator sees them, over any connection: for the command and for the HTTP port."""
