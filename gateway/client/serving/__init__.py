"""Deployments of Ray Serve that consume."""
