"""Helpers that several jobs use."""
