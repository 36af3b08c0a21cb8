"""The content of a scrape of a gateway."""
