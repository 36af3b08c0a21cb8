"""Assignments of Kafka Connect's workers, as ConnectProtocol and IncrementalCooperativeConnectProtocol lay them out."""

from __future__ import annotations

import pytest

from actors.group.connect_protocol import assigned_tasks
from actors.group.primitives import Writer


def assignment(version: int, tasks: dict[str, list[int]], *, more: bytes = b"") -> bytes:
    written = Writer().int16(version).int16(0).string("worker-1").string("http://10.0.0.7:8083/").int64(42)
    written.int32(len(tasks))
    for connector, numbers in tasks.items():
        written.string(connector).int32(len(numbers))
        for number in numbers:
            written.int32(number)
    return written.bytes() + more


@pytest.mark.parametrize("version", [0, 1, 2])
def test_connectors_and_tasks(version: int) -> None:
    """Task -1 is the connector itself; from version 1 on, what is revoked and a delay follow."""
    revoked = b"" if version == 0 else Writer().int32(1).string("gone").int32(1).int32(0).int32(300_000).bytes()
    data = assignment(version, {"sink": [0, -1], "a source": [1]}, more=revoked)
    assert assigned_tasks(data) == [("a source", 1), ("sink", None), ("sink", 0)]


def test_nothing_is_assigned() -> None:
    assert assigned_tasks(b"") == []
    assert assigned_tasks(assignment(0, {})) == []
    null = Writer().int16(1).int16(0).string("w").string("u").int64(1).int32(-1).int32(-1).int32(0).bytes()
    assert assigned_tasks(null) == []


def test_what_is_no_assignment() -> None:
    whole = assignment(0, {"sink": [0]})
    for cut in range(1, len(whole)):
        assert assigned_tasks(whole[:cut]) is None
    assert assigned_tasks(b'{"version":1,"master_identity":{}}') is None
