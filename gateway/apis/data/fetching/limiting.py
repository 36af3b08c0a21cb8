"""Quotas of a Fetch: how much may be fetched at once, and whether a response may be sent with what was found.

As in Kafka, the charge for a response that exceeds a quota is taken back, and the client gets an empty one with the
throttle time. Other than in Kafka, a batch that alone exceeds all that a client may fetch in a window is sent once
the window is empty: its consumer would never get it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from muster.gateway.attribution.account import Part
from muster.gateway.listener.api import Call
from muster.gateway.listener.limiting.charging import charge_time, client_of
from muster.gateway.listener.limiting.throttling import monotonic_ms
from muster.gateway.quotas.clients import ClientQuotas, Meter

_MIN_BYTES = 1


def max_bytes(quotas: ClientQuotas, call: Call, requested: int) -> int:
    """Return ``requested``, or less: the bytes that a client may fetch in a window."""
    meters = [client_of(quotas, call).fetch]
    if quotas.limits_groups:
        connection, gateway = call.connection, call.gateway
        group = gateway.account.group_of(
            connection.attribution, connection.host, call.header.client_id, gateway.now_ms()
        )
        meters.append(None if group is None else quotas.group(group))
    window_s = quotas.window.full_ms / 1000
    limits = [meter.quota * window_s for meter in meters if meter is not None]
    return max(_MIN_BYTES, int(min(requested, *limits))) if limits else requested


def must_wait(quotas: ClientQuotas, call: Call, size: Callable[[], int], parts: Sequence[Part]) -> bool:
    """Charge a response of that many bytes, which carries these parts; whether an empty one has to be sent instead.

    ``call.throttle_ms`` is for how long its client has to pause.
    """
    now_ms, client = monotonic_ms(), client_of(quotas, call)
    pause_ms = charge_time(quotas, call, client, now_ms)
    size_bytes = 0
    if client.fetch is not None:
        size_bytes = size()
        was_unused = client.fetch.is_unused(now_ms)
        throttle_ms = client.fetch.charge(size_bytes, now_ms)
        if was_unused:
            call.pause(throttle_ms)
        else:
            pause_ms = max(pause_ms, throttle_ms)
    for meter, group_bytes in _groups(quotas, call, parts):
        was_unused = meter.is_unused(now_ms)
        throttle_ms = meter.charge(group_bytes, now_ms)
        meter.record(-group_bytes, now_ms)  # they are charged when they are attributed
        if was_unused:
            call.pause(throttle_ms)
        else:
            pause_ms = max(pause_ms, throttle_ms)
    if pause_ms and client.fetch is not None:
        client.fetch.record(-size_bytes, now_ms)
    call.pause(pause_ms)
    return pause_ms > 0


def _groups(quotas: ClientQuotas, call: Call, parts: Sequence[Part]) -> Iterator[tuple[Meter, int]]:
    """Yield the quotas of the groups that the parts are for, and their bytes."""
    if not parts or not quotas.limits_groups:
        return
    connection, gateway = call.connection, call.gateway
    found = gateway.account.bytes_by_group(
        connection.attribution, connection.host, call.header.client_id, parts, gateway.now_ms()
    )
    for group, size_bytes in found.items():
        meter = quotas.group(group)
        if meter is not None:
            yield meter, size_bytes
