"""A coordinator that takes a request and never responds: the client gets a retriable error within its own timeout."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from muster.actors.offsets.partition import OffsetsPartition
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.groups import forwarding as groups
from tests.gateway.group_client import Member
from tests.gateway.serving import Serving

PROPERTIES = {"group.min.session.timeout.ms": "100", "group.max.session.timeout.ms": "3000"}


@pytest.fixture
def member(full: Serving, fresh: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> Member:
    """Return a group whose coordinator does not respond from now on."""
    member = Member(full.connect(), fresh("hung"))
    assert member.join(session_timeout_ms=3_000).error_code is ErrorCode.none

    monkeypatch.setattr(groups, "REQUEST_TIMEOUT_S", 0.2)
    monkeypatch.setattr(OffsetsPartition, "request", lambda *_: None)
    return member


def test_a_join_waits_no_longer_than_the_client(member: Member) -> None:
    member.request_join(session_timeout_ms=3_000, rebalance_timeout_ms=400)
    assert member.joined().error_code is ErrorCode.coordinator_load_in_progress


def test_a_sync_waits_no_longer_than_the_longest_session(member: Member) -> None:
    assert member.sync({}).error_code is ErrorCode.not_coordinator


def test_what_others_are_not_waited_for_is_answered_soon(member: Member) -> None:
    assert member.heartbeat() is ErrorCode.none
    assert member.leave().error_code is ErrorCode.coordinator_load_in_progress


@pytest.mark.parametrize("timeout_ms", [-1, -(2**31), 0])
def test_a_senseless_timeout_is_refused_as_ever(full: Serving, fresh: Callable[[str], str], timeout_ms: int) -> None:
    member = Member(full.connect(), fresh("senseless"))
    assert member.join(session_timeout_ms=3_000).error_code is ErrorCode.none
    member.request_join(session_timeout_ms=timeout_ms, rebalance_timeout_ms=timeout_ms)
    assert member.joined().error_code is ErrorCode.invalid_session_timeout
