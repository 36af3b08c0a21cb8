"""Queries that an actor answers to gateways: metrics, history, and whatever else no Kafka API provides."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from muster.actors.wire.server import Peer

log = logging.getLogger(__name__)

Answer = Callable[[dict[str, Any]], dict[str, Any] | Awaitable[dict[str, Any]]]
"""Takes the whole query. Returns a JSON object: no NaN, only string keys."""

_NAME_CHARACTERS = 100


class Questions:
    """Handlers in ``answers``, by the query's name. A failure of a handler does not reach the caller: it becomes
    ``{"error": TEXT}`` and a line in the log."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self._running: dict[tuple[Peer, int], asyncio.Task[None]] = {}

    def query(self, peer: Peer, token: int, question: dict[str, Any]) -> None:
        """Respond immediately, or in a task if the handler returns an awaitable."""
        name = question.get("ask")
        answer = self.answers.get(name) if isinstance(name, str) else None
        if answer is None:
            peer.answer(token, {"error": f"unknown question {str(name)[:_NAME_CHARACTERS]!r}"})
            return
        try:
            found = answer(question)
            if not inspect.isawaitable(found):
                peer.answer(token, found)
                return
        except Exception as error:
            _refuse(peer, token, str(name), error)
            return
        task = asyncio.get_running_loop().create_task(_answer_later(peer, token, str(name), found))
        self._running[peer, token] = task
        task.add_done_callback(lambda _: self._running.pop((peer, token), None))

    def cancel(self, peer: Peer, token: int) -> None:
        """The response is no longer needed. Tokens of anything else are ignored."""
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


async def _answer_later(peer: Peer, token: int, name: str, answer: Awaitable[dict[str, Any]]) -> None:
    try:
        peer.answer(token, await answer)
    except Exception as error:
        _refuse(peer, token, name, error)


def _refuse(peer: Peer, token: int, name: str, error: Exception) -> None:
    log.error("the question %r could not be answered", name, exc_info=error)
    peer.answer(token, {"error": f"{type(error).__name__}: {error}"})
