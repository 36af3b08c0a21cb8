"""What Kafka Connect's leader assigns to its workers: opaque bytes of groups of protocol type ``connect``.

Versions 0 (eager), 1 (incremental cooperative, KIP-415) and 2 (sessioned, KIP-507) begin alike: version, error, leader
and its URL, offset of the configuration, assignment. What the newer ones append (what is revoked, a delay) is not read.
"""

from __future__ import annotations

from actors.group.errors import CorruptRecord
from actors.group.primitives import Reader

PROTOCOL_TYPE = "connect"
_CONNECTOR_ITSELF = -1


def assigned_tasks(assignment: bytes) -> list[tuple[str, int | None]] | None:
    """(connector, task) of an assignment, the connector itself with None, sorted; None if the bytes are none."""
    if not assignment:
        return []
    try:
        source = Reader(assignment)
        source.int16()
        source.int16()
        source.nullable_string()
        source.nullable_string()
        source.int64()
        pairs = [
            (connector, source.int32())
            for connector in (source.string() for _ in range(source.nullable_array_length()))
            for _ in range(source.array_length())
        ]
    except CorruptRecord:
        return None
    return [(connector, None if task == _CONNECTOR_ITSELF else task) for connector, task in sorted(pairs)]
