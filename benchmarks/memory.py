"""Memory of the pure core for a group, a member and an offset (tracemalloc: Python's own count)."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
from collections.abc import Callable, Iterable

from benchmarks.many import Scale
from benchmarks.members import PROTOCOL, REBALANCE_TIMEOUT_MS, SESSION_TIMEOUT_MS, assignment, subscription
from benchmarks.report import Figures
from muster.actors.group.config import GroupConfig
from muster.actors.group.coordinator import Coordinator
from muster.actors.group.messages import (
    CommitPartition,
    CommitTopic,
    JoinGroup,
    JoinGroupResponse,
    OffsetCommit,
    Request,
    SyncGroup,
)
from muster.actors.group.types import GroupId, MemberId, Outcome, Token
from muster.placement.client import Context

_PARTITIONS_PER_COMMIT = 50


class Core:
    """A coordinator whose log is always durable at once, and its responses."""

    def __init__(self) -> None:
        ids = itertools.count()
        config = GroupConfig(group_initial_rebalance_delay_ms=0)
        # as long as the UUIDs of production
        self._core = Coordinator(partition=0, epoch=1, config=config, new_id=lambda: f"{next(ids):036d}")
        self._tokens = itertools.count()
        self._now_ms = 1_700_000_000_000
        self._joined: dict[Token, JoinGroupResponse] = {}
        self._take(self._core.loaded(self._now_ms))

    def form(self, group: str, members: int) -> None:
        """Form a Stable group of that many members."""
        ids = [self._request(self._join(group, "")).member_id for _ in range(members)]
        tokens = [self._send(self._join(group, member)) for member in ids]
        while tokens[0] not in self._joined:  # until the join phase has ended
            self._now_ms = self._core.next_deadline_ms() or self._now_ms
            self._take(self._core.tick(self._now_ms))
        responses = [self._joined.pop(token) for token in tokens]
        leader = responses[0].leader
        given = tuple((member, assignment("orders", [number])) for number, member in enumerate(ids))
        for member in sorted(ids, key=lambda member: member == leader):
            self._send(
                SyncGroup(
                    api_version=5,
                    group_id=GroupId(group),
                    generation_id=responses[0].generation_id,
                    member_id=member,
                    group_instance_id=None,
                    protocol_type="consumer",
                    protocol_name=PROTOCOL,
                    assignments=given if member == leader else (),
                )
            )
        assert self._core.groups[GroupId(group)].state.value == "Stable"

    def commit(self, group: str, topic: str, partitions: Iterable[int]) -> None:
        parts = [CommitPartition(partition=index, offset=self._now_ms + index, metadata="") for index in partitions]
        topics = (CommitTopic.of(topic, parts),)
        self._send(
            OffsetCommit(
                api_version=9,
                group_id=GroupId(group),
                generation_id=-1,
                member_id=MemberId(""),
                group_instance_id=None,
                topics=topics,
            )
        )

    def _join(self, group: str, member: str) -> JoinGroup:
        return JoinGroup(
            api_version=9,
            group_id=GroupId(group),
            member_id=MemberId(member),
            group_instance_id=None,
            protocol_type="consumer",
            protocols=((PROTOCOL, subscription("orders")),),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        )

    def _request(self, request: Request) -> JoinGroupResponse:
        return self._joined.pop(self._send(request))

    def _send(self, request: Request) -> Token:
        token = Token(next(self._tokens))
        self._take(self._core.step(request, Context(client_id="bench", host="10.0.0.1"), token, self._now_ms))
        return token

    def _take(self, outcome: Outcome) -> None:
        for token, response in outcome.replies:
            if isinstance(response, JoinGroupResponse):
                self._joined[token] = response
        if outcome.write is not None:
            self._take(self._core.written(outcome.write, self._now_ms))


def memory(scale: Scale, offsets: int, figures: Figures) -> None:
    part = "memory of the core"

    def groups(core: Core) -> None:
        for number in range(scale.groups):
            core.form(f"many-{number}", 1)

    def commits(core: Core) -> None:
        for number in range(offsets // _PARTITIONS_PER_COMMIT):
            core.commit(f"group-{number // 5}", f"topic-{number % 5}", range(_PARTITIONS_PER_COMMIT))

    figures.add(part, "a group with its one member", _grown_bytes(groups) / scale.groups / 1024, "KiB")
    large = _grown_bytes(lambda core: core.form("large", scale.members))
    figures.add(part, f"a member, of {scale.members:,} in one group", large / scale.members / 1024, "KiB")
    figures.add(part, "a committed offset", _grown_bytes(commits) / offsets, "bytes")


def _grown_bytes(fill: Callable[[Core], None]) -> int:
    """Return the memory that a core keeps after ``fill``."""
    tracemalloc.start()
    try:
        core = Core()
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        fill(core)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
