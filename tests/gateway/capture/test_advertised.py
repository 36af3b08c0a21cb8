"""Every version of every response that names brokers, with the proxy's addresses in it."""

from __future__ import annotations

from typing import Any

import pytest

from muster.actors.wire.kafka import codec
from muster.gateway.capture import advertised
from muster.gateway.capture.advertised import (
    DESCRIBE_CLUSTER,
    FETCH,
    FIND_COORDINATOR,
    METADATA,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
)

ONE, TWO = ("one.test", 9092), ("two.test", 9093)
OURS = {ONE: ("proxy.test", 1), TWO: ("proxy.test", 2)}
BROKERS = [
    {"node_id": number, "broker_id": number, "host": host, "port": port, "rack": None, "is_fenced": False}
    for number, (host, port) in enumerate((ONE, TWO), start=1)
]
COMMON = {"throttle_time": 0, "error_code": 0, "error_message": None, "cluster_id": "c", "controller_id": 1}
BODIES: dict[int, dict[str, Any]] = {
    PRODUCE: {"responses": [], "node_endpoints": BROKERS},
    FETCH: {"session_id": 0, "responses": [], "node_endpoints": BROKERS},
    METADATA: {"brokers": BROKERS, "topics": []},
    FIND_COORDINATOR: {
        **dict(zip(("node_id", "host", "port"), (1, *ONE), strict=True)),
        "coordinators": [{"key": f"k{each['node_id']}", **COMMON, **each} for each in BROKERS],
    },
    DESCRIBE_CLUSTER: {"endpoint_type": 1, "brokers": BROKERS, "cluster_authorized_operations": 0},
    SHARE_FETCH: {"acquisition_lock_timeout": 0, "responses": [], "node_endpoints": BROKERS},
    SHARE_ACKNOWLEDGE: {"acquisition_lock_timeout": 0, "responses": [], "node_endpoints": BROKERS},
}
VERSIONS = [(key, version) for key in BODIES for version in codec.versions_of(key)]


def response_of(api_key: int, version: int) -> Any:
    return codec.decode_response(
        api_key, version, codec.encode_response(api_key, version, 1, {**COMMON, **BODIES[api_key]})
    )[1]


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_every_address_is_replaced_and_nothing_else(api_key: int, version: int) -> None:
    response = response_of(api_key, version)
    named = advertised.addresses(api_key, response)
    assert advertised.may_change(api_key, version) == bool(named)
    if not named:
        assert "one.test" not in repr(response)
        return
    text = repr(advertised.rewritten(api_key, response, OURS))
    assert "one.test" not in text
    assert "two.test" not in text
    back = {ours: theirs for theirs, ours in OURS.items()}
    assert advertised.rewritten(api_key, advertised.rewritten(api_key, response, OURS), back) == response


def test_which_versions_name_brokers() -> None:
    first = {
        key: min((version for version in codec.versions_of(key) if advertised.may_change(key, version)), default=None)
        for key in BODIES
    }
    assert first == {
        PRODUCE: 10,
        FETCH: 16,
        METADATA: 0,
        FIND_COORDINATOR: 0,
        DESCRIBE_CLUSTER: 0,
        SHARE_FETCH: 1,
        SHARE_ACKNOWLEDGE: 1,
    }


@pytest.mark.parametrize("version", codec.versions_of(FIND_COORDINATOR))
def test_no_address_stays_none(version: int) -> None:
    nowhere = {"error_code": 15, "host": "", "port": -1, "node_id": -1}
    body = {**COMMON, **nowhere, "coordinators": [{**COMMON, "key": "g", **nowhere}]}
    frame = codec.encode_response(FIND_COORDINATOR, version, 1, body)
    response = codec.decode_response(FIND_COORDINATOR, version, frame)[1]
    assert advertised.addresses(FIND_COORDINATOR, response) == set()
    assert advertised.rewritten(FIND_COORDINATOR, response, OURS) is response


@pytest.mark.parametrize("version", codec.versions_of(codec.API_VERSIONS))
def test_no_version_is_offered_whose_response_could_not_be_rewritten(version: int) -> None:
    newest = codec.versions_of(METADATA)[-1]
    offered = [(METADATA, newest + 1), (FETCH, 4), (12, 99)]
    keys = [{"api_key": key, "min_version": 0, "max_version": most} for key, most in offered]
    frame = codec.encode_response(codec.API_VERSIONS, version, 1, {**COMMON, "api_keys": keys})
    response = codec.decode_response(codec.API_VERSIONS, version, frame)[1]
    changed = advertised.rewritten(codec.API_VERSIONS, response, {})
    assert [(each.api_key, each.max_version) for each in changed.api_keys] == [(METADATA, newest), (FETCH, 4), (12, 99)]
    assert advertised.rewritten(codec.API_VERSIONS, changed, {}) is changed
