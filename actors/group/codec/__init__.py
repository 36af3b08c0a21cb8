"""Between bytes and the core: Kafka's versions of the group APIs, records of ``__consumer_offsets``, members' data."""
