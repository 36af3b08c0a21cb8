"""The fetches that gateways send to an actor: log actors and coordinators alike."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from muster.actors.log.fetch import LogById, OpenFetch, OpenLog, WaitingFetch, open_now, open_soon
from muster.actors.wire.internal.fetch import FetchRequest, write_fetched
from muster.actors.wire.internal.listener import Peer

log = logging.getLogger(__name__)

_Key = tuple[Peer, int]


class Fetches:
    """Responds at once where it can. Only a fetch whose log has to be opened has a task."""

    def __init__(self, open_log: OpenLog, log_by_id: LogById) -> None:
        self._open_log = open_log
        self._log_by_id = log_by_id
        self._waiting: dict[_Key, Callable[[], object]] = {}
        """The fetches that have no response yet, and how to cancel them."""
        self._lines: dict[Peer, dict[_Key, OpenFetch]] = {}
        """Fetches whose records are not read before the gateway has taken earlier responses, in order."""

    def serve(self, peer: Peer, token: int, request: FetchRequest) -> None:
        """Respond to the fetch, now or later."""
        fetch = open_now(request, self._open_log)
        if fetch is not None:
            self._begin((peer, token), fetch)
            return
        task = asyncio.get_running_loop().create_task(self._open((peer, token), request))
        self._waiting[peer, token] = task.cancel

    async def _open(self, key: _Key, request: FetchRequest) -> None:
        try:
            fetch = await open_soon(request, self._log_by_id)
        except Exception:
            log.exception("a fetch failed")
            self._waiting.pop(key, None)
            key[0].close()
            return
        self._begin(key, fetch)

    def _begin(self, key: _Key, fetch: OpenFetch) -> None:
        if fetch.has_to_wait():
            self._waiting[key] = WaitingFetch(fetch, partial(self._respond, key, fetch)).cancel
        else:
            self._respond(key, fetch)

    def _respond(self, key: _Key, fetch: OpenFetch) -> None:
        self._waiting.pop(key, None)
        peer, _ = key
        if not fetch.by_place and (peer in self._lines or peer.is_full):
            self._wait_in_line(key, fetch)
        else:
            self._send(key, fetch)

    def _wait_in_line(self, key: _Key, fetch: OpenFetch) -> None:
        peer, _ = key
        line = self._lines.get(peer)
        if line is None:
            line = self._lines[peer] = {}
            peer.when_drained(partial(self._next, peer))
        line[key] = fetch
        self._waiting[key] = partial(line.pop, key, None)

    def _next(self, peer: Peer) -> None:
        """Respond to the next fetches: the gateway has taken what it was sent."""
        line = self._lines.get(peer, {})
        while line and not peer.is_full:
            key = next(iter(line))
            self._waiting.pop(key, None)
            self._send(key, line.pop(key))
        if line:
            peer.when_drained(partial(self._next, peer))
        else:
            self._lines.pop(peer, None)

    def _send(self, key: _Key, fetch: OpenFetch) -> None:
        peer, token = key
        try:
            peer.send(*write_fetched(token, fetch.response()))
        except Exception:  # a log that calls this must not fail because of it
            log.exception("a fetch failed")
            peer.close()

    def cancel(self, peer: Peer, token: int) -> None:
        """Drop the fetch: its response is no longer needed."""
        if cancel := self._waiting.pop((peer, token), None):
            cancel()

    def left(self, peer: Peer) -> None:
        """Drop the fetches of a gateway that is gone."""
        for key in [key for key in self._waiting if key[0] is peer]:
            self.cancel(*key)
        self._lines.pop(peer, None)

    def stop(self) -> None:
        """Give up all that have no response."""
        for key in list(self._waiting):
            self.cancel(*key)
