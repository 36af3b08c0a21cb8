"""Leaves connections open for a while after what their clients have sent: see :class:`Holding`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from muster.gateway.listener.complaints import Cause

MAX_HELD = 1_000
"""The most connections that are held; beyond them, a connection is closed at once."""
_HELD_AFTER = frozenset(
    (
        Cause.TLS,
        Cause.HTTP,
        Cause.PROXY_HEADER,
        Cause.FRAME_SIZE,
        Cause.UNREADABLE,
        Cause.NOT_SERVED,
        Cause.NOT_AUTHENTICATED,
    )
)
"""The client has sent what can be no request, and would do so on its next connection."""
_SPREAD = (0.5, 1.5)
"""Connections that are refused at the same time are closed one by one: their clients would all come back at once."""


class Holding:
    """A client that connects anew after each refused request is slowed down; those that behave do not notice.

    Kafka does the same after a failed login (``connection.failed.authentication.delay.ms``), and only then.
    """

    def __init__(self, delay_ms: int) -> None:
        """``delay_ms``: how long a connection is held on average, in ms; 0: not at all."""
        self._delay_ms = delay_ms
        self._held = 0

    def begin(self, cause: Cause, on_over: Callable[[], None]) -> bool:
        """Whether a connection with that cause for a complaint is held; if so, ``on_over`` is called at the end."""
        if not self._delay_ms or cause not in _HELD_AFTER or self._held >= MAX_HELD:
            return False
        self._held += 1
        delay_s = self._delay_ms / 1000 * random.uniform(*_SPREAD)  # noqa: S311 - not for a secret
        asyncio.get_running_loop().call_later(delay_s, self._end, on_over)
        return True

    def _end(self, on_over: Callable[[], None]) -> None:
        self._held -= 1
        on_over()
