"""Producers and consumers, each a process: ``python -m chaos.workers SPEC.json`` runs until SIGTERM."""
