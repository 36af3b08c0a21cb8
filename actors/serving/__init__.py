"""What one process serves for a name until another takes over: ``offsets-<p>``, ``transactions-<p>``, ``log-<i>``."""
