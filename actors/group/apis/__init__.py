"""What the core does for each group API."""
