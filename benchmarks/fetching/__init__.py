"""Cost of a Fetch."""
