"""The journal as an operator sees it: over HTTP, from real coordinators, also after they were killed."""

from __future__ import annotations

import asyncio
import json
import logging
import queue
from typing import Any, Self
from urllib.parse import quote

import pytest

from muster.actors.offsets.history.recent import Recent
from muster.actors.runtime.process import now_ms
from muster.actors.tables.rebalances import encode
from muster.actors.wire.kafka.codec import ErrorCode
from tests.gateway.group_client import Fresh, Member
from tests.gateway.serving import Serving
from tests.group.driver import assignment
from tests.tables.rebalances import entry

PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "metrics.rebalances.flush.ms": "3600000",
    "rebalance.stuck.ms": "50",
}


def history(full: Serving, group: str, limit: int = 20) -> list[dict[str, Any]]:
    status, text = full.http(f"/v1/groups/history?group={quote(group)}&limit={limit}")
    assert status == 200, text
    body = json.loads(text)
    assert body["group"] == group
    entries: list[dict[str, Any]] = body["entries"]
    return entries


def coordinated(full: Serving, fresh: Fresh) -> str:
    """Return a name for a group whose coordinator serves."""
    group = fresh("g")
    assert full.run(full.gateway.coordinator_ready(full.gateway.partition_of(group), 10))
    return group


def rebalance(member: Member) -> None:
    """Another rebalance to Stable, started by the leader."""
    assert member.join().error_code is ErrorCode.none
    assert member.sync({member.id: assignment(("t", 0))}).error_code is ErrorCode.none


def killed_and_back(full: Serving, group: str) -> int:
    """Restart the group's coordinator as after SIGKILL: nothing is flushed or sent.

    Returns the successor's leader epoch.
    """
    actors = full.actors
    assert actors is not None
    partition = full.gateway.partition_of(group)
    core, dead = actors.offsets[partition], actors.histories[partition]

    async def kill() -> None:
        core.observers.clear()
        flushing = dead._flushing._task
        assert flushing is not None
        flushing.cancel()
        await asyncio.wait([flushing])
        if dead._store._folder is not None:
            dead._store._folder.release()
        await core.stop()
        full.controller.offsets[partition] = await actors.start_offsets(partition)

    full.run(kill())
    full.follow(full.controller.view())
    assert full.run(full.gateway.coordinator_ready(partition, 10))
    return actors.offsets[partition].epoch


def test_the_history_of_a_group(full: Serving, fresh: Fresh) -> None:
    group = coordinated(full, fresh)
    began_ms = now_ms()
    member = Member(full.client, group)
    rebalance(member)
    rebalance(member)
    member.leave()
    left, again, first = history(full, group)
    assert (first["cause"], first["ending"], first["generation"], first["from_state"]) == (
        "member joined",
        "stable",
        1,
        "Empty",
    )
    assert first["culprit"] == {
        "member_id": member.id,
        "client_id": "a client",
        "host": "127.0.0.1",
        "group_instance_id": None,
    }
    assert began_ms <= first["began_ms"] <= first["joined_ms"] <= first["stable_ms"] <= first["ended_ms"] <= now_ms()
    assert (again["cause"], again["partitions_still"], again["protocol"]) == ("leader rejoined", 1, "range")
    assert (left["cause"], left["ending"], left["reason"], left["members_after"]) == ("member left", "empty", "done", 0)
    assert history(full, group, limit=1) == [left]
    assert full.http(f"/v1/groups/history?group={fresh('nobody')}")[0] == 404


def test_after_a_kill_the_history_goes_on(full: Serving, fresh: Fresh) -> None:
    group = coordinated(full, fresh)
    member = Member(full.client, group)
    rebalance(member)
    (before,) = history(full, group)
    epoch = killed_and_back(full, group)
    assert history(full, group) == [before]
    rebalance(member)
    new, *old = history(full, group)
    assert old == [before]
    assert (new["epoch"], new["number"], new["previous_generation"]) == (epoch, 1, 1)
    assert before["epoch"] < epoch
    assert history(full, group, limit=1) == [new]
    actors = full.actors
    assert actors is not None
    store = actors.histories[full.gateway.partition_of(group)]._store
    store.flush()
    assert history(full, group) == [new, before], "none twice, now that both are in the table"
    second = killed_and_back(full, group)
    assert second > epoch
    assert history(full, group) == [new, before]


def test_the_awaited_member_is_reported_and_logged_once(full: Serving, fresh: Fresh) -> None:
    group = coordinated(full, fresh)
    leader, other = Member(full.client, group), Member(full.connect("slow"), group)
    rebalance(leader)
    with Lines(group) as lines:
        other.request_join()
        assert other.joined().error_code is ErrorCode.member_id_required
        other.request_join()
        (wait,) = awaited(full, group)
        assert [who["member_id"] for who in wait["members"]] == [leader.id]
        assert wait["deadline_ms"] - wait["since_ms"] == 30_000
        (running, _) = history(full, group)
        assert (running["ending"], running["generation"]) == ("running", None)
        assert f"waits for JoinGroup of leader {leader.id}" in lines.next()
        leader.request_join()
        assert "PreparingRebalance is over" in lines.next()
        assert (leader.joined().generation_id, other.joined().generation_id) == (2, 2)
        assert f"waits for SyncGroup of leader {leader.id}" in lines.next()
        leader.sync({leader.id: assignment(("t", 0))})
        assert "CompletingRebalance is over" in lines.next()
        other.sync({})
    last = history(full, group)[0]
    assert (last["ending"], last["join_waits"][0]["member_id"]) == ("stable", leader.id)
    assert last["join_waits"][0]["after_ms"] >= 50


def awaited(full: Serving, group: str) -> list[dict[str, Any]]:
    """Return the members that the group waits for, as soon as it does."""
    while True:
        status, text = full.http("/v1/groups/waiting")
        assert status == 200, text
        if found := [wait for wait in json.loads(text)["groups"] if wait["group"] == group]:
            return found


class Lines(logging.Handler):
    """The log about a group, to be awaited."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self._about = f"group {group}:"
        self._new: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.all: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if self._about in record.getMessage():
            self._new.put(record.getMessage())

    def next(self) -> str:
        self.all.append(self._new.get(timeout=10))
        return self.all[-1]

    def __enter__(self) -> Self:
        logging.getLogger("muster.actors.offsets.history.rebalances").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("muster.actors.offsets.history.rebalances").removeHandler(self)
        assert self._new.empty(), "more was logged"


@pytest.mark.parametrize("bad", [{}, {"group": 7}, {"group": "g", "limit": 0}, {"group": "g", "limit": "many"}])
def test_a_query_that_makes_no_sense(full: Serving, bad: dict[str, Any]) -> None:
    assert full.run(full.gateway.coordinator_ready(0, 10))
    assert full.actors is not None
    assert "error" in full.run(full.actors.histories[0].history(bad))


def test_memory_is_bounded() -> None:
    recent = Recent(per_group=3, most_bytes=1 << 20)
    for number in range(1, 6):
        recent.add(entry(number), encode(entry(number)))
    assert recent.of("billing", 100) == [encode(entry(number)) for number in (5, 4, 3)]
    assert recent.of("billing", 2) == [encode(entry(number)) for number in (5, 4)]
    size = len(encode(entry(1)))
    small = Recent(per_group=100, most_bytes=size * 5 // 2)
    for number, group in enumerate(("a", "b", "c"), start=1):
        made = entry(number, group=group)
        small.add(made, encode(made))
    assert [small.of(group, 10) != [] for group in ("a", "b", "c")] == [False, True, True]
