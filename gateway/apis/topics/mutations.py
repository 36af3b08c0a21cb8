"""Charges administrative changes to the quota controller_mutation_rate, in partitions (KIP-599).

Newer versions of an API are strict: a client whose bucket is overdrawn gets THROTTLING_QUOTA_EXCEEDED for the topic.
With older ones the change is made, and the client is throttled. A request may overdraw the bucket.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from muster.actors.controller.admin import TopicOutcome
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.admin import refusal
from muster.gateway.listener.api import Call
from muster.gateway.listener.limiting.charging import client_of
from muster.gateway.listener.limiting.throttling import monotonic_ms

_CREATE_TOPICS, _DELETE_TOPICS, _CREATE_PARTITIONS = 19, 20, 37
_FIRST_STRICT: Mapping[int, int] = MappingProxyType({_CREATE_TOPICS: 6, _DELETE_TOPICS: 5, _CREATE_PARTITIONS: 3})


def exceeds_quota(call: Call, name: str, partitions: int) -> TopicOutcome | None:
    """Charge the creation, growth or deletion of a topic by that number of partitions; or why it is refused."""
    quotas = call.gateway.quotas
    meter = None if quotas is None else client_of(quotas, call).mutation
    if meter is None:
        return None
    now_ms = monotonic_ms()
    is_strict = call.header.api_version >= _FIRST_STRICT[call.header.api_key]
    if not is_strict:
        meter.take(partitions, now_ms)
    throttle_ms = meter.throttle_ms(now_ms)
    if throttle_ms:
        if throttle_ms > call.throttle_ms:
            meter.throttled(throttle_ms)
            call.pause(throttle_ms)
        if is_strict:
            return refusal(name, ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded.")
    elif is_strict:
        meter.take(partitions, now_ms)
    return None


def charge_auto_creation(call: Call, partitions: int) -> None:
    """Charge topics that are created because a client requested their metadata: the client is not throttled."""
    quotas = call.gateway.quotas
    meter = None if quotas is None else client_of(quotas, call).mutation
    if meter is not None:
        meter.take(partitions, monotonic_ms())
