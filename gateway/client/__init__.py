"""The client's side of a cluster, for programs: what ``muster.run``, ``muster.data`` and the commands are made of."""
