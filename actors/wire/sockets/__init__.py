"""Sockets: their options, and listening sockets that outlive a process."""
