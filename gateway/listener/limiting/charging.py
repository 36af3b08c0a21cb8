"""Charges requests to the quotas of their clients."""

from __future__ import annotations

from muster.gateway.listener.api import Call
from muster.gateway.listener.limiting.throttling import BusyTime, monotonic_ms
from muster.gateway.quotas.clients import Client, ClientQuotas

_PRODUCE, _SASL_HANDSHAKE, _WRITE_TXN_MARKERS, _SASL_AUTHENTICATE = 0, 17, 27, 36
_EXEMPT = frozenset((_SASL_HANDSHAKE, _WRITE_TXN_MARKERS, _SASL_AUTHENTICATE))
"""Their time is limited by no quota: they establish who the client is, or are sent by brokers only."""


def client_of(quotas: ClientQuotas, call: Call) -> Client:
    """Return the quotas of the client that has sent the request."""
    return quotas.client(call.connection.principal.partition(":")[2], call.header.client_id)


def timer_for(call: Call) -> BusyTime | None:
    """Return a timer for the request, if the time of its client's requests is limited."""
    quotas = call.gateway.quotas
    if quotas is None or not quotas.times_requests or client_of(quotas, call).time is None:
        return None
    return BusyTime()


def settle(quotas: ClientQuotas, call: Call, *, is_answered: bool) -> int:
    """Charge a request that has been served. Returns for how long its connection has to pause, in ms.

    ``is_answered``: whether there is a response. What the handler has charged (``call.throttle_ms``) counts, too.
    """
    sasl = call.connection.sasl
    if sasl is not None and sasl.user is None:  # who it is, is not known yet
        return 0
    client, now_ms, throttle_ms = client_of(quotas, call), monotonic_ms(), call.throttle_ms
    if call.header.api_key == _PRODUCE and client.produce is not None:
        throttle_ms = max(throttle_ms, client.produce.charge(len(call.frame), now_ms))
    is_exempt = not is_answered or call.header.api_key in _EXEMPT
    return max(throttle_ms, charge_time(quotas, call, client, now_ms, is_exempt=is_exempt))


def charge_time(quotas: ClientQuotas, call: Call, client: Client, now_ms: int, *, is_exempt: bool = False) -> int:
    """Charge the time of the request that is not charged yet. Returns for how long the client has to pause, in ms."""
    if call.timer is None or client.time is None:
        return 0
    busy_ns = call.timer.take_ns()
    if is_exempt:
        quotas.exempt_ns += busy_ns
        return 0
    return quotas.charge_time(client.time, busy_ns, now_ms)
