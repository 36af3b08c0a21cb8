"""Random histories of transactional ids: producers, partitions, a coordinator that dies, and what must hold."""
