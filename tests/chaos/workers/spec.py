"""The task of one worker process."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

PRODUCER, CONSUMER, TRANSFORMER = "producer", "consumer", "transformer"
LIBRARIES = ("confluent", "kafka-python", "aiokafka")
EXIT_ABANDONED = 3
"""A call did not end long after its timeout, and the process has ended itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    name: str
    """Name of this process: ``<worker>.<number>``; also its client id."""
    role: str
    library: str
    bootstrap: str
    topics: dict[str, int]
    """Topic -> number of partitions."""
    journal: str
    """The file for its events."""
    idempotent: bool = True
    records_per_s: int = 50
    group: str = ""
    mode: str = "manual"
    """manual: commits what it has read; auto: the library does; assign: no membership, commits itself."""
    strategy: str = "roundrobin"
    protocol: str = "classic"
    """group.protocol of confluent-kafka; with ``consumer``, a server assigns the partitions."""
    regex: str = ""
    """Subscribe to this regular expression instead of the topics' names."""
    outputs: dict[str, int] = field(default_factory=dict)
    """Topics that a transformer writes, like ``topics``."""
    transactional_id: str = ""
    """Id of a transformer: all processes of the worker have this one."""
    own_timeouts: bool = False
    """With the library's own timeouts of requests and sessions, and not with those of ``base``."""

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Spec:
        return cls(**json.loads(path.read_text()))
