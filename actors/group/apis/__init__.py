"""The core's part of each group API."""
