"""Producers and consumers, each a process: ``python -m tests.chaos.workers SPEC.json`` runs until SIGTERM."""
