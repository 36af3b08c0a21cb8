"""Cost of the same requests without protection, with TLS and with ACLs; not their number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from benchmarks.comparison import data, heartbeats
from benchmarks.comparison.rows import Measure, Measured, Row
from benchmarks.comparison.servers import Kind, Server

_KIB = 1024
_HEARTBEATS = 100
_OTHER_ACLS = 100
_WAIT_S = 30
_MIB_OF = {"produce": 1 / 64, "fetch": 1.0}
"""Records in a request or its response, in MiB."""


def _load(what: str, server: Server) -> data.Connections:
    match what:
        case "produce":
            return data.producers(16 * _KIB, False, server)
        case "fetch":
            return data.consumers(1024 * _KIB, 64 * _KIB, server)
        case _:
            return heartbeats.connections_of(server, _HEARTBEATS)


@contextmanager
def _protected(what: str, kind: Kind, muster: Server, kafka: Server) -> Iterator[Measure]:
    if kind is Kind.ACLS:
        for server in (muster, kafka):
            _create_acls(server)
    with data.sending(lambda server: _load(what, server), muster, kafka) as measure:

        def measure_with_bytes(server: Server, seconds: float) -> Measured:
            found = measure(server, seconds)
            return {**found, "cpu_us_per_mib": found["cpu_us"] / _MIB_OF[what]} if what in _MIB_OF else found

        yield measure_with_bytes


def _create_acls(server: Server) -> None:
    """Create the ACLs that the client needs, and as many others; those that exist already are kept."""
    admin = AdminClient({"bootstrap.servers": server.address})
    prefixed, literal, allow = ResourcePatternType.PREFIXED, ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    own = [(ResourceType.TOPIC, "bench-"), (ResourceType.GROUP, "group-")]
    acls = [AclBinding(*each, prefixed, "User:ANONYMOUS", "*", AclOperation.ALL, allow) for each in own]
    acls += [
        AclBinding(ResourceType.TOPIC, f"other-{number}", literal, f"User:u{number}", "*", AclOperation.READ, allow)
        for number in range(_OTHER_ACLS)
    ]
    for future in admin.create_acls(acls).values():
        future.result(_WAIT_S)


_TITLES = {
    "produce": "Produce of 16 KiB, 8 connections, not synced",
    "fetch": "Fetch of 1,024 KiB, 10 connections, from the page cache",
    "heartbeat": f"Heartbeat, {_HEARTBEATS} connections",
}


def _row(what: str, kind: Kind) -> Row:
    def opened(muster: Server, kafka: Server) -> AbstractContextManager[Measure]:
        return _protected(what, kind, muster, kafka)

    with_what = "without TLS and ACLs" if kind is Kind.PLAIN else f"with {kind.value}"
    name = f"protected-{kind.value.lower()}-{what}"
    return Row(name, f"{_TITLES[what]}, {with_what}", opened, kind=kind)


ROWS = tuple(_row(what, kind) for what in _TITLES for kind in Kind)
