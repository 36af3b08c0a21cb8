"""Which requests of a client instance are in time, and what the others get (KIP-714)."""

from __future__ import annotations

from uuid import UUID

import pytest

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.telemetry import instances
from muster.gateway.telemetry.instances import ClientInstances, Refused
from muster.gateway.telemetry.subscriptions import Client, Wanted, subscriptions_of

CLIENT = Client(UUID(int=7), "c", "s", "1", "h", 1)
INTERVAL_MS = 1_000
THROTTLED = ErrorCode.throttling_quota_exceeded


@pytest.fixture
def clients() -> ClientInstances:
    found = ClientInstances()
    found.subscriptions = subscriptions_of({"one": {"metrics": "*", "interval.ms": str(INTERVAL_MS)}})
    return found


def push(
    clients: ClientInstances, wanted: Wanted, now_ms: int, *, is_last: bool = False, error: ErrorCode = ErrorCode.none
) -> ErrorCode:
    try:
        clients.push(CLIENT, wanted.subscription_id, now_ms, is_last=is_last, error=error)
    except Refused as refused:
        return refused.code
    return ErrorCode.none


def get(clients: ClientInstances, now_ms: int) -> ErrorCode:
    try:
        clients.subscribe(CLIENT, now_ms)
    except Refused as refused:
        return refused.code
    return ErrorCode.none


def test_pushes_in_time(clients: ClientInstances) -> None:
    wanted = clients.subscribe(CLIENT, 50_000)
    assert (wanted.metrics, wanted.interval_ms) == (("*",), INTERVAL_MS)
    assert push(clients, wanted, 50_100) is ErrorCode.none, "the first one comes at any time"
    assert push(clients, wanted, 51_099) is THROTTLED
    assert push(clients, wanted, 51_100) is ErrorCode.none
    assert get(clients, 51_200) is THROTTLED
    assert get(clients, 52_100) is ErrorCode.none


def test_the_last_push_is_never_too_early(clients: ClientInstances) -> None:
    wanted = clients.subscribe(CLIENT, 50_000)
    assert [push(clients, wanted, 50_100, is_last=last) for last in (False, True)] == [ErrorCode.none] * 2
    assert push(clients, wanted, 60_000) is ErrorCode.invalid_request, "it has ended"


def test_other_subscriptions(clients: ClientInstances) -> None:
    wanted = clients.subscribe(CLIENT, 50_000)
    clients.subscriptions = subscriptions_of({"one": {"metrics": "org.a", "interval.ms": str(INTERVAL_MS)}})
    assert push(clients, wanted, 50_100) is ErrorCode.unknown_subscription_id
    assert get(clients, 50_101) is ErrorCode.none, "it need not wait"
    assert get(clients, 50_102) is THROTTLED


def test_a_gateway_that_does_not_know_the_client_accepts_its_push(clients: ClientInstances) -> None:
    wanted = clients.subscribe(CLIENT, 50_000)
    other = ClientInstances()
    other.subscriptions = clients.subscriptions
    assert push(other, wanted, 50_100) is ErrorCode.none


def test_errors_of_the_content(clients: ClientInstances) -> None:
    wanted = clients.subscribe(CLIENT, 50_000)
    assert push(clients, wanted, 50_100, error=ErrorCode.unsupported_compression_type) == 76
    assert get(clients, 50_200) is ErrorCode.none, "it may choose another codec at once"
    assert push(clients, wanted, 50_300, error=ErrorCode.telemetry_too_large) is ErrorCode.telemetry_too_large


def test_silent_clients_are_forgotten(clients: ClientInstances, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "_MIN_SILENT_MS", 2 * INTERVAL_MS)
    wanted = clients.subscribe(CLIENT, 50_000)
    assert clients.forget_silent(53_000) == []
    assert clients.forget_silent(53_001) == [CLIENT.client_instance_id]
    assert len(clients) == 0
    push(clients, wanted, 60_000, is_last=True)
    assert clients.forget_silent(62_001) == [CLIENT.client_instance_id], "it has ended"


def test_so_many_instances(monkeypatch: pytest.MonkeyPatch, clients: ClientInstances) -> None:
    monkeypatch.setattr(instances, "MAX_INSTANCES", 3)
    for number in range(5):
        clients.subscribe(CLIENT._replace(client_instance_id=UUID(int=number)), 50_000)
    assert len(clients) == 3
    assert {*clients.forget_silent(50_000)} == {UUID(int=0), UUID(int=1)}, "their series end with them"
    assert clients.forget_silent(50_000) == []
