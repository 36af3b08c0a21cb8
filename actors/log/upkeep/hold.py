"""Holds back the acknowledgements of all logs of this process for a moment, for a backup.

While every process of a Muster holds them, no record becomes visible or acknowledged anywhere. So what is durable in
one log cannot have been caused by anything that is missing in another: files that are captured meanwhile, one after
the other, are as if everything had been killed at one moment. Appends are accepted and wait.
"""

from __future__ import annotations

import asyncio
import time
import uuid

MAX_HOLD_S = 2.0
"""Well below offsets.commit.timeout.ms (5 s), after which a coordinator whose append waits gives up."""


class AcknowledgementHold:
    """For one event loop. Committers report each commit, and wait for :meth:`over` before it."""

    def __init__(self) -> None:
        self._token: str | None = None
        self._began_s = 0.0
        self._over: asyncio.Event | None = None
        self._end: asyncio.TimerHandle | None = None
        self._commits = 0
        self._idle: asyncio.Event | None = None
        """Set when no commit is in progress; None while nothing waits for that."""

    @property
    def is_on(self) -> bool:
        """Whether commits must wait now."""
        return self._token is not None

    async def begin(self, for_s: float = MAX_HOLD_S) -> str:
        """Hold from now on, at most for ``for_s``. Returns a token once no commit is in progress.

        It replaces a hold that was there before.
        """
        self._finish()
        token = self._token = uuid.uuid4().hex
        self._began_s = time.monotonic()
        self._over = asyncio.Event()
        self._end = asyncio.get_running_loop().call_later(min(for_s, MAX_HOLD_S), self._finish)
        while self._commits:
            self._idle = asyncio.Event()
            await self._idle.wait()
        return token

    def end(self, token: str) -> float | None:
        """End that hold. Returns how long commits have waited, in ms.

        None if it had ended before: something may have been acknowledged since.
        """
        if self._token != token:
            return None
        self._finish()
        return (time.monotonic() - self._began_s) * 1000

    async def over(self) -> None:
        """Return when nothing is held."""
        while self._over is not None:
            await self._over.wait()

    def commit_begins(self) -> None:
        """Count a commit as in progress, until :meth:`commit_ended`."""
        self._commits += 1

    def commit_ended(self) -> None:
        """Count a commit as acknowledged or failed."""
        self._commits -= 1
        if self._idle is not None and not self._commits:
            self._idle.set()
            self._idle = None

    def _finish(self) -> None:
        if self._end is not None:
            self._end.cancel()
        over, self._token, self._over, self._end = self._over, None, None, None
        if over is not None:
            over.set()


HOLD = AcknowledgementHold()
"""That of this process."""
