"""What a scrape of a gateway says."""
