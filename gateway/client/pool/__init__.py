"""Ray actors that consume as members of a group: as many as its lag needs."""
