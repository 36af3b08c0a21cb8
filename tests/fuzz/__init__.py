"""Hostile clients: frames that are made from the schemas and then spoiled, storms of connections, and found cases."""
