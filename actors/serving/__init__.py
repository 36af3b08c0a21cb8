"""What one process serves for a name until another takes over: ``offsets-<p>``, ``log-<i>``, standbys for both."""
