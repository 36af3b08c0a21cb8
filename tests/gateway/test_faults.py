"""Request faults at a gateway with real log actors and coordinators: what the bytes of a client meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from actors.faults import FaultClient
from actors.wire.codec import ErrorCode
from tests.gateway.group_client import Member
from tests.gateway.serving import Serving

PROPERTIES = {
    "fault.injection.enable": "true",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
}
HEARTBEAT, PRODUCE, METADATA, LIST_OFFSETS = 12, 0, 3, 2
Fresh = Callable[[str], str]


@pytest.fixture
def faults(full: Serving) -> Iterator[FaultClient]:
    """Of the gateway; no fault stays behind."""
    client = FaultClient(full.http_url + "/metrics")
    yield client
    client.clear()


def joined(full: Serving, group: str) -> Member:
    member = Member(full.connect(), group)
    member.join()
    member.sync({member.id: b"mine"})
    return member


def test_an_error_before_and_the_next_request_after_it_is_cleared(
    full: Serving, faults: FaultClient, fresh: Fresh
) -> None:
    member, other = joined(full, fresh("g")), joined(full, fresh("g"))
    fault_id = faults.inject("error", api="Heartbeat", group=member.group, error="NOT_COORDINATOR")
    assert member.heartbeat() is ErrorCode.not_coordinator
    assert other.heartbeat() is ErrorCode.none
    assert [(one["id"], one["hits"]) for one in faults.faults()] == [(fault_id, 1)]
    assert faults.clear(fault_id) == [fault_id]
    assert member.heartbeat() is ErrorCode.none
