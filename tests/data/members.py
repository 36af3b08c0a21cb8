"""Members of groups, of confluent-kafka, in the process that calls this."""

from __future__ import annotations

from confluent_kafka import Consumer

from tests.muster_process import eventually

_members: list[Consumer] = []


def join(bootstrap: str, group: str, topic: str, protocol: str = "classic") -> None:
    """Make a member with the client id ``somebody`` that has partitions, until :func:`leave`."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "somebody", "group.protocol": protocol}
    member = Consumer(settings)
    _members.append(member)
    member.subscribe([topic])
    eventually(lambda: member.poll(0.1) or member.assignment(), bool, "the member has partitions")


def leave() -> None:
    """Let all of them leave."""
    while _members:
        _members.pop().close()
