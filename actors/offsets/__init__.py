"""The offsets actors: each serves one partition of ``__consumer_offsets`` and owns the groups that hash to it."""
