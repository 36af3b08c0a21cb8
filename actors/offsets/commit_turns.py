"""OffsetCommits are most of what a coordinator handles, and many come at once: they share what a step costs.

The commits that arrive in one turn of the event loop are one step of the core, with one write, one append, and one
pass over the responses. Every other request ends the turn first: a group's requests keep their order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from muster.actors.coordinator.shell import WaitingRequest
from muster.actors.group.coordinator import Coordinator
from muster.actors.group.messages import OffsetCommit
from muster.actors.group.types import Outcome, Token
from muster.actors.runtime.process import now_ms
from muster.placement.client import Context

_RECORD_BYTES = 256
"""More than a batch and a record have besides the group, the topic and the metadata."""
_CHAR_BYTES = 4
"""The most that a character has in UTF-8."""

Commit = tuple[WaitingRequest, OffsetCommit, Context]


class CommitTurns:
    """Call :meth:`end` before the core handles anything else of a client."""

    def __init__(
        self,
        core: Coordinator,
        *,
        limit_bytes: Callable[[], int],
        expect: Callable[[WaitingRequest], Token],
        drop: Callable[[Iterable[Token]], None],
        refuse: Callable[[WaitingRequest, OffsetCommit], None],
        apply: Callable[[Outcome], None],
    ) -> None:
        """``limit_bytes``: limit of a batch of records; the other arguments are the shell's."""
        self._core = core
        self._limit_bytes = limit_bytes
        self._expect, self._drop, self._refuse, self._apply = expect, drop, refuse, apply
        self._commits: list[Commit] = []
        self._bytes = 0

    def put(self, commit: Commit) -> None:
        """Handle the commit at the end of this turn; earlier if the records of all would not fit in one batch."""
        size_bytes = _most_bytes(commit[1])
        if self._commits and self._bytes + size_bytes > self._limit_bytes():
            self.end()
        if not self._commits:
            asyncio.get_running_loop().call_soon(self.end)
        self._commits.append(commit)
        self._bytes += size_bytes

    def end(self) -> None:
        """Let the core handle what has been put so far."""
        if self._commits:
            commits, self._commits, self._bytes = self._commits, [], 0
            self._handle(commits)

    def _handle(self, commits: list[Commit]) -> None:
        """If the core fails, find out at which commit: only that one has failed."""
        expected = [(request, context, self._expect(waiting)) for waiting, request, context in commits]
        try:
            outcome = self._core.commit_all(expected, now_ms())
        except Exception:
            self._drop(token for _, _, token in expected)
            if len(commits) == 1:
                self._refuse(*commits[0][:2])
                return
            for commit in commits:
                self._handle([commit])
        else:
            self._apply(outcome)


def _most_bytes(request: OffsetCommit) -> int:
    """Upper bound of the size of its records."""
    size_bytes, group_chars = 0, len(request.group_id)
    for topic in request.topics:
        size_bytes += len(topic.partitions) * (_RECORD_BYTES + _CHAR_BYTES * (group_chars + len(topic.name)))
        if any(topic.metadata):
            size_bytes += _CHAR_BYTES * sum(len(each or "") for each in topic.metadata)
    return size_bytes
