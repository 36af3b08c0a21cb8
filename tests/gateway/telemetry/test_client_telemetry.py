"""GetTelemetrySubscriptions and PushTelemetry of a gateway, and what its /metrics has of them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData, ScopeMetrics
from prometheus_client.parser import text_string_to_metric_families

from muster.actors.log.format.compression import CODECS, GZIP, LZ4, SNAPPY, ZSTD, compress
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.kafka.schema import as_varint
from muster.gateway.apis.telemetry import k72_push_telemetry
from muster.gateway.telemetry.otlp import Point
from tests.gateway.config_requests import CLIENT_METRICS, SET, incremental
from tests.gateway.fault_client import joined
from tests.gateway.group_client import Fresh
from tests.gateway.serving import Client, Serving
from tests.gateway.telemetry.pushes import counter, gauge

GET, PUSH, API_VERSIONS = 71, 72, 18
PROPERTIES = {"telemetry.max.bytes": "20000", "group.initial.rebalance.delay.ms": "0"}


def subscribe(full: Serving, name: str, **config: str) -> None:
    changes = [(key.replace("_", "."), SET, value) for key, value in config.items()]
    (response,) = incremental(full.client, (CLIENT_METRICS, name, changes))
    assert response.error_code is ErrorCode.none, response.error_message


def get(client: Client, instance: UUID | None = None) -> Any:
    return client.exchange(GET, 0, {"client_instance_id": instance})


def push(client: Client, subscription: Any, metrics: bytes, codec: int = 0, **changes: Any) -> ErrorCode:
    body = {
        "client_instance_id": subscription.client_instance_id,
        "subscription_id": subscription.subscription_id,
        "terminating": False,
        "compression_type": codec,
        "metrics": metrics,
    }
    return ErrorCode(client.exchange(PUSH, 0, body | changes).error_code)


def pushed(**values: float) -> bytes:
    data = MetricsData()
    for name, value in values.items():
        gauge(data, f"org.{name}", value, topic="t")
    counter(data, "org.total", 5)
    return bytes(data.SerializeToString())


def series(full: Serving, instance: UUID) -> dict[tuple[str, str], float]:
    """By group and metric."""
    return {
        (sample.labels["group"], sample.labels["metric"]): sample.value
        for family in text_string_to_metric_families(full.http("/metrics")[1])
        for sample in family.samples
        if sample.labels.get("client_instance_id") == str(instance)
    }


def test_it_is_offered_while_there_is_a_subscription(full: Serving, fresh: Fresh) -> None:
    name = fresh("offered")
    subscribe(full, name, metrics="org", match=f"client_id={name}")
    with full.connect(name) as client:
        found = client.exchange(API_VERSIONS, 3, {"client_software_name": name, "client_software_version": "1"})
        assert {GET, PUSH} <= {each.api_key for each in found.api_keys}


def test_a_client_without_a_subscription(full: Serving) -> None:
    with full.connect("a client") as client:
        found = get(client)
        assert found.client_instance_id is not None
        assert (found.error_code, found.requested_metrics, found.telemetry_max_bytes) == (ErrorCode.none, (), 20_000)
        assert found.accepted_compression_types == (ZSTD, LZ4, GZIP, SNAPPY)
        assert found.delta_temporality
        again = get(client, found.client_instance_id)
        assert again.error_code is ErrorCode.throttling_quota_exceeded


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_pushed_is_in_the_metrics(full: Serving, fresh: Fresh, codec: int) -> None:
    name = fresh("client")
    subscribe(full, name, metrics="org", interval_ms="100", match=f"client_id={name}")
    with full.connect(name) as client:
        found = get(client, uuid4())
        assert (found.requested_metrics, found.push_interval) == (("org",), 100)
        assert push(client, found, compress(codec, pushed(a=2.5)), codec) is ErrorCode.none
        assert series(full, found.client_instance_id) == {("", "org.a"): 2.5, ("", "org.total"): 5}
        assert push(client, found, compress(codec, pushed(a=3)), codec, terminating=True) is ErrorCode.none
        assert series(full, found.client_instance_id) == {("", "org.a"): 3, ("", "org.total"): 10}
        assert push(client, found, b"") is ErrorCode.invalid_request


def test_the_group_of_a_member(full: Serving, fresh: Fresh) -> None:
    name, group = fresh("client"), fresh("g")
    subscribe(full, name, metrics="*", match=f"client_id={name}")
    member = joined(full, group, name)
    found = get(member.client)
    assert found.requested_metrics == ("*",)
    assert push(member.client, found, pushed(a=1)) is ErrorCode.none
    assert series(full, found.client_instance_id)[group, "org.a"] == 1


def test_refused_pushes(full: Serving, fresh: Fresh) -> None:
    name = fresh("client")
    subscribe(full, name, metrics="*", match=f"client_id={name}")
    with full.connect(name) as client:
        found = get(client)
        assert push(client, found, b"", subscription_id=found.subscription_id + 1) == 117
        found = get(client, found.client_instance_id)
        assert push(client, found, b"", compression_type=9) == 76
        found = get(client, found.client_instance_id)
        assert push(client, found, b"x" * 20_001) == 118
        assert push(client, found, b"") == 89
        for reserved in (None, UUID(int=1)):
            assert push(client, found, b"", client_instance_id=reserved) is ErrorCode.invalid_request
    for content, codec in ((b"\xff\xff", 0), (b"no gzip", GZIP), (compress(ZSTD, bytes(17 << 20)), ZSTD)):
        with full.connect(name) as client:
            assert push(client, get(client), content, codec) is ErrorCode.invalid_record


def test_what_the_client_says_it_is_is_matched(full: Serving, fresh: Fresh) -> None:
    name = fresh("software")
    subscribe(full, name, metrics="org.mine", match=f"client_software_name={name},client_software_version=1.*")
    for version, metrics in (("1.2", ("org.mine",)), ("2.1", ())):
        with full.connect(name) as client:
            client.exchange(API_VERSIONS, 3, {"client_software_name": name, "client_software_version": version})
            assert get(client).requested_metrics == metrics


def bombs() -> dict[str, tuple[bytes, int]]:
    """Return data that decompresses to a lot (snappy cannot), and data that does not, but is read as many objects."""
    scope = ScopeMetrics()
    for _ in range(100_001):
        scope.metrics.add()
    points = MetricsData()
    gauge(points, "a", 1.0)
    for _ in range(100_001):
        points.resource_metrics[0].scope_metrics[0].metrics[0].gauge.data_points.add()
    metrics = MetricsData()
    metrics.resource_metrics.add().scope_metrics.append(scope)
    size_bytes = 9 << 19
    unknown_field = b"\x7a" + as_varint(size_bytes) + bytes(size_bytes)
    inflated = {f"codec {codec}": (compress(codec, unknown_field), codec) for codec in (GZIP, LZ4, ZSTD)}
    objects = {"metrics": metrics, "points": points}
    return inflated | {name: (compress(ZSTD, each.SerializeToString()), ZSTD) for name, each in objects.items()}


@pytest.mark.parametrize("name", ["codec 1", "codec 3", "codec 4", "metrics", "points"])
def test_bombs_are_refused(full: Serving, fresh: Fresh, name: str) -> None:
    content, codec = bombs()[name]
    assert len(content) <= 20_000
    client_id = fresh("client")
    subscribe(full, client_id, metrics="*", match=f"client_id={client_id}")
    with full.connect(client_id) as client:
        assert push(client, get(client), content, codec) is ErrorCode.invalid_record


def test_one_push_is_decompressed_at_a_time(full: Serving, fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    name = fresh("client")
    subscribe(full, name, metrics="*", match=f"client_id={name}")
    together = threading.Barrier(2)
    met: list[bool] = []

    def read(*_: Any) -> list[Point]:
        with suppress(threading.BrokenBarrierError):
            together.wait(0.2)  # until another one is read, which must not be
            met.append(True)
        together.reset()
        return []

    monkeypatch.setattr(k72_push_telemetry, "_read", read)

    def work() -> None:
        with full.connect(name) as client:
            assert push(client, get(client), pushed(a=1)) is ErrorCode.none

    with ThreadPoolExecutor(3) as threads:
        for each in [threads.submit(work) for _ in range(3)]:
            each.result()
    assert not met
