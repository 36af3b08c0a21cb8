"""The heartbeats that one connection's client sends again and again, and that the gateway may answer itself.

A member's heartbeats of one generation are the same bytes but for the correlation id. So no heartbeat is decoded twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from muster.actors.wire.internal.leases import MemberLease, Use

_MAX_MEMBERS = 4096
"""Limit per connection; the members of most clients have one each."""
_MIN_MEMBERS = 8
_MAX_REQUEST_BYTES = 2048
"""A client may send longer ones, up to socket.request.max.bytes with tagged fields; they are forwarded, not kept."""
_CORRELATION_ID = slice(4, 8)
LATER = b""
"""No response yet."""


class _Prepared(NamedTuple):
    lease: MemberLease
    response: bytes
    """Without its correlation id."""
    is_allowed: Callable[[], bool]
    answered: Callable[[], None]


class LeasedHeartbeats:
    """The responses that are prepared."""

    __slots__ = ("_limit", "prepared")

    def __init__(self) -> None:
        self.prepared: dict[bytes, _Prepared] = {}
        """By the bytes of the request, but for its correlation id."""
        self._limit = _MIN_MEMBERS
        """At how many entries those of earlier generations are removed."""

    def add(
        self,
        request: bytes,
        lease: MemberLease,
        response: bytes,
        *,
        is_allowed: Callable[[], bool],
        answered: Callable[[], None],
    ) -> None:
        """Answer requests like this one from now on, while they are allowed; ``answered`` is called for each."""
        if len(self.prepared) >= self._limit:
            self.prepared = {key: each for key, each in self.prepared.items() if not each.lease.is_over}
            self._limit = max(_MIN_MEMBERS, 2 * len(self.prepared))
        if len(self.prepared) < _MAX_MEMBERS and len(request) <= _MAX_REQUEST_BYTES:
            self.prepared[request[:4] + request[8:]] = _Prepared(lease, response[4:], is_allowed, answered)

    def respond(self, request: bytes, now_s: float, again: Callable[[], None]) -> bytes | None:
        """Return the response, or None if the request has to be forwarded. ``now_s``: of ``time.monotonic``.

        :data:`LATER` if neither is known yet: call this again for the same request when ``again`` is called.
        """
        key = request[:4] + request[8:]
        found = self.prepared.get(key)
        if found is None:
            return None
        if not found.is_allowed():
            del self.prepared[key]
            return None
        use = found.lease.use(now_s, again)
        if use is Use.LATER:
            return LATER
        if use is Use.NO:
            if found.lease.is_over:
                del self.prepared[key]
            return None
        found.answered()
        return request[_CORRELATION_ID] + found.response
