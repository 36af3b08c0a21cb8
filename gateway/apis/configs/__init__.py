"""Describing and altering configs."""
