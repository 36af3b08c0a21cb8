"""The throttle time of responses that are written already: in every API and version that is served."""

from __future__ import annotations

import dataclasses
import datetime
import typing
from typing import Any

import pytest

import muster.gateway.apis  # noqa: F401 - registers the handlers
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.listener.api import APIS
from muster.gateway.listener.limiting.throttle_time import with_throttle_time

THROTTLE_MS = 123_456


def empty(kind: Any) -> dict[str, Any]:
    """Return the least that a response of that type has."""
    hints = typing.get_type_hints(kind)
    return {
        each.name: value(hints[each.name])
        for each in dataclasses.fields(kind)
        if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
    }


def value(hint: Any) -> Any:
    if type(None) in typing.get_args(hint):
        return None
    if typing.get_origin(hint) is tuple:
        return ()
    if hint is ErrorCode:
        return ErrorCode.none
    base = getattr(hint, "__supertype__", hint)
    for kind, example in ((bool, False), (int, 0), (str, ""), (bytes, b""), (float, 0.0), (datetime.timedelta, 0)):
        if isinstance(base, type) and issubclass(base, kind):
            return example
    if issubclass(base, datetime.datetime):
        return None
    return empty(base)


@pytest.mark.parametrize("api_key", sorted(APIS))
def test_only_the_throttle_time_is_set(api_key: int) -> None:
    for version in APIS[api_key].versions:
        kind = codec.response_type(api_key, version)
        body = empty(kind)
        if api_key == codec.API_VERSIONS:
            body["api_keys"] = [{"api_key": key, "min_version": 0, "max_version": key} for key in range(200)]
        parts = codec.encode_response_parts(api_key, version, 7, body)
        found = with_throttle_time(api_key, version, parts, THROTTLE_MS)
        before, after = (codec.decode_response(api_key, version, b"".join(each)) for each in (parts, found))
        if not hasattr(before[1], "throttle_time"):
            assert found is parts
            continue
        assert (after[0], after[1].throttle_time) == (7, THROTTLE_MS)
        assert dataclasses.replace(after[1], throttle_time=before[1].throttle_time) == before[1]


def test_records_are_not_copied() -> None:
    records = b"r" * 100_000
    data: dict[str, Any] = empty(codec.response_type(1, 12)) | {"error_code": 0}
    partition: dict[str, Any] = {"partition_index": 0, "error_code": 0, "high_watermark": 1, "last_stable_offset": 1}
    partition |= {"log_start_offset": 0, "aborted_transactions": None, "preferred_read_replica": -1}
    topic: dict[str, Any] = {"topic": "t", "topic_id": None, "partitions": [{**partition, "records": [records]}]}
    body = {**data, "responses": [topic]}
    parts = with_throttle_time(1, 12, codec.encode_response_parts(1, 12, 7, body), 9)
    assert any(part is records for part in parts)
    assert codec.decode_response(1, 12, b"".join(parts))[1].throttle_time == 9
