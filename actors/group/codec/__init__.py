"""Translates between bytes and the core: versions of the group APIs, records of ``__consumer_offsets``, member data."""
