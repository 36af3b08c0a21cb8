"""What several jobs look up."""
