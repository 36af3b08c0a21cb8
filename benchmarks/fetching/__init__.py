"""What a Fetch costs."""
