"""The log: segments of Kafka record batches, group commit, recovery and fencing.

One implementation for ``__consumer_offsets`` and ``__transaction_state`` (in the actors of coordinators) and topics (in
the log actors).
"""

from muster.actors.log.config import LogConfig
from muster.actors.log.errors import LogError
from muster.actors.log.partition import AppendResult, PartitionLog
from muster.actors.log.partitions import Partitions

__all__ = ["AppendResult", "LogConfig", "LogError", "PartitionLog", "Partitions"]
