"""Offsets that are committed in transactions."""
