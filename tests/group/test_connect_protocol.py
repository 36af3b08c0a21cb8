"""Assignments of Kafka Connect's workers, as in ConnectProtocol and IncrementalCooperativeConnectProtocol."""

from __future__ import annotations

import pytest

from muster.actors.group.codec.connect_protocol import assigned_tasks
from muster.actors.group.codec.primitives import Writer


def assignment(version: int, tasks: dict[str, list[int]], *, more: bytes = b"") -> bytes:
    written = Writer().int16(version).int16(0).string("worker-1").string("http://10.0.0.7:8083/").int64(42)
    written.int32(len(tasks))
    for connector, numbers in tasks.items():
        written.string(connector).int32(len(numbers))
        for number in numbers:
            written.int32(number)
    return written.bytes() + more


def revoked(tasks: dict[str, list[int]]) -> bytes:
    """Return the end of an assignment from version 1 on: that, and a delay of 5 min."""
    written = Writer().int32(len(tasks))
    for connector, numbers in tasks.items():
        written.string(connector).int32(len(numbers))
        for number in numbers:
            written.int32(number)
    return written.int32(300_000).bytes()


def subscription(version: int, had: bytes | None = None) -> bytes:
    written = Writer().int16(version).string("http://10.0.0.7:8083/").int64(42)
    if version == 0:
        return written.bytes()
    return (written.int32(-1) if had is None else written.blob(had)).bytes()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_connectors_and_tasks(version: int) -> None:
    """Task -1 is the connector itself."""
    data = assignment(version, {"sink": [0, -1], "a source": [1]}, more=revoked({}) if version else b"")
    assert assigned_tasks(subscription(version), data) == [("a source", 1), ("sink", None), ("sink", 0)]


@pytest.mark.parametrize("version", [1, 2])
def test_what_a_worker_had_is_its_own_until_it_is_revoked(version: int) -> None:
    had = assignment(version, {"sink": [-1, 0, 1], "source": [3]}, more=revoked({"gone": [0]}))
    change = assignment(version, {"new": [-1]}, more=revoked({"sink": [0]}))
    assert assigned_tasks(subscription(version, had), change) == [
        ("new", None),
        ("sink", None),
        ("sink", 1),
        ("source", 3),
    ]


def test_an_eager_worker_starts_from_nothing() -> None:
    had = assignment(0, {"sink": [0]})
    assert assigned_tasks(subscription(1, had), assignment(0, {"new": [0]})) == [("new", 0)]


def test_nothing_is_assigned() -> None:
    assert assigned_tasks(b"", b"") == []
    assert assigned_tasks(subscription(0), assignment(0, {})) == []
    null = Writer().int16(1).int16(0).string("w").string("u").int64(1).int32(-1).int32(-1).int32(0).bytes()
    assert assigned_tasks(subscription(1), null) == []
    assert assigned_tasks(subscription(1), assignment(1, {"sink": [0]})) == [("sink", 0)]


def test_what_is_no_assignment() -> None:
    whole = assignment(0, {"sink": [0]})
    for cut in range(1, len(whole)):
        assert assigned_tasks(subscription(0), whole[:cut]) is None
    assert assigned_tasks(subscription(0), b'{"version":1,"master_identity":{}}') is None
    assert assigned_tasks(b"what I want", assignment(1, {"sink": [0]})) is None
