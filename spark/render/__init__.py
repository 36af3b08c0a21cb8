"""Answers as tables, plots and pages."""
