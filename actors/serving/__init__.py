"""Roles that a process serves by name until another takes over: ``offsets-<p>``, ``transactions-<p>``, ``log-<i>``."""
