"""The log: segments of Kafka record batches, group commit, recovery and fencing.

One implementation for ``__consumer_offsets`` and ``__transaction_state`` (in the actors of coordinators) and topics (in
the log actors). Nothing is imported here: clients need the formats of records only.
"""
