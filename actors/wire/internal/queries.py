"""Queries that an actor answers to gateways: metrics, history, and whatever else no Kafka API provides."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from muster.actors.wire.internal.listener import Peer

log = logging.getLogger(__name__)

Handler = Callable[[dict[str, Any]], dict[str, Any] | Awaitable[dict[str, Any]]]
"""Takes the whole query. Returns a JSON object: no NaN, only string keys."""

_NAME_CHARACTERS = 100


class QueryHandlers:
    """Handlers in ``handlers``, by the query's name. A failure of a handler does not reach the caller: it becomes
    ``{"error": TEXT}`` and a line in the log."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        self._running: dict[tuple[Peer, int], asyncio.Task[None]] = {}

    def query(self, peer: Peer, token: int, query: dict[str, Any]) -> None:
        """Respond immediately, or in a task if the handler returns an awaitable."""
        name = query.get("ask")
        handler = self.handlers.get(name) if isinstance(name, str) else None
        if handler is None:
            peer.respond(token, {"error": f"unknown query {str(name)[:_NAME_CHARACTERS]!r}"})
            return
        try:
            found = handler(query)
            if not inspect.isawaitable(found):
                peer.respond(token, found)
                return
        except Exception as error:
            _refuse(peer, token, str(name), error)
            return
        task = asyncio.get_running_loop().create_task(_respond_later(peer, token, str(name), found))
        self._running[peer, token] = task
        task.add_done_callback(lambda _: self._running.pop((peer, token), None))

    def cancel(self, peer: Peer, token: int) -> None:
        """Cancel a query: its response is no longer needed. Tokens of anything else are ignored."""
        if task := self._running.get((peer, token)):
            task.cancel()

    def left(self, peer: Peer) -> None:
        """No response can reach that gateway any more."""
        for key, task in self._running.items():
            if key[0] is peer:
                task.cancel()

    def stop(self) -> None:
        """Send no more responses."""
        for task in self._running.values():
            task.cancel()


async def _respond_later(peer: Peer, token: int, name: str, handler: Awaitable[dict[str, Any]]) -> None:
    try:
        peer.respond(token, await handler)
    except Exception as error:
        _refuse(peer, token, name, error)


def _refuse(peer: Peer, token: int, name: str, error: Exception) -> None:
    log.error("the query %r failed", name, exc_info=error)
    peer.respond(token, {"error": f"{type(error).__name__}: {error}"})
