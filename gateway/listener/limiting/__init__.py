"""Quotas of clients, and limits of connections."""
