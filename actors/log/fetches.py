"""The fetches that gateways send to an actor: log actors and offsets actors alike."""

from __future__ import annotations

import asyncio
import logging

from muster.actors.log.fetch import LogById, OpenLog, fetch, fetch_now
from muster.actors.wire.fetching import FetchRequest, write_fetched
from muster.actors.wire.server import Peer

log = logging.getLogger(__name__)


class Fetches:
    """Responds at once where it can; only a fetch that waits has a task."""

    def __init__(self, open_log: OpenLog, log_by_id: LogById) -> None:
        self._open_log = open_log
        self._log_by_id = log_by_id
        self._waiting: dict[tuple[Peer, int], asyncio.Task[None]] = {}

    def serve(self, peer: Peer, token: int, request: FetchRequest) -> None:
        """Respond to the fetch, now or later."""
        found = fetch_now(request, self._open_log)
        if found is not None:
            peer.send(*write_fetched(token, found))
            return
        key = (peer, token)
        task = asyncio.get_running_loop().create_task(self._wait(peer, token, request))
        self._waiting[key] = task
        task.add_done_callback(lambda _: self._waiting.pop(key, None))

    async def _wait(self, peer: Peer, token: int, request: FetchRequest) -> None:
        try:
            found = await fetch(request, self._log_by_id)
        except Exception:
            log.exception("a fetch failed")
            peer.close()
            return
        peer.send(*write_fetched(token, found))

    def cancel(self, peer: Peer, token: int) -> None:
        """The response is no longer needed."""
        if task := self._waiting.pop((peer, token), None):
            task.cancel()

    def left(self, peer: Peer) -> None:
        """The gateway is gone."""
        for key in [key for key in self._waiting if key[0] is peer]:
            self.cancel(*key)

    def stop(self) -> None:
        """Give up all that wait."""
        for task in self._waiting.values():
            task.cancel()
