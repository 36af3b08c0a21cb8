"""Records of actors: the supervisor's own record of them in, rows of the table ``lifecycle`` out."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from muster.actors.controller.lifecycle import ControllerSeen, Event, Lifecycle, Server
from muster.actors.controller.managed import Managed
from muster.actors.controller.standbys import ActiveStandby, Standby
from muster.actors.controller.state import ActorState
from muster.actors.runtime.event_writer import EventWriter
from muster.actors.runtime.started import Started
from tests.table_rows import table_rows


class World:
    """A log actor and an offsets actor as a supervisor has them, and their rows at 1, 2, 3, ... ms."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.lifecycle = Lifecycle(self.rows.append, itertools.count(1).__next__)
        self.log = Managed("log-0", lambda _: None)
        self.offsets = Managed("offsets-7", lambda _: None, is_role=True)

    def new_rows(self) -> list[tuple[Any, ...]]:
        """Return the new rows: actor, event, pid, epoch and reason."""
        new, self.rows[:] = list(self.rows), []
        return [tuple(row[name] for name in ("actor", "event", "pid", "epoch", "reason")) for row in new]


def begin(world: World, managed: Managed) -> None:
    world.lifecycle.starting(managed)


def serve(world: World, managed: Managed, pid: int, epoch: int = -1, node_id: str = "n1") -> None:
    managed.started, managed.state, managed.active_standby = (
        Started(pid=pid, node_id=node_id, epoch=epoch),
        ActorState.ALIVE,
        None,
    )
    world.lifecycle.see(managed)


def lose(world: World, managed: Managed, reason: str) -> None:
    managed.state = ActorState.RESTARTING
    world.lifecycle.see(managed, reason)


def active_standby(world: World, managed: Managed, number: int, epoch: int) -> None:
    standby = Standby(f"standby-{number}", None, 100 + number, "n1")
    started = Started(pid=standby.pid, node_id="n1", epoch=epoch)
    managed.active_standby = ActiveStandby(standby, managed.name, started)
    world.lifecycle.see(managed)


@pytest.fixture
def world() -> World:
    return World()


def test_an_actor_is_lost_and_serves_again(world: World) -> None:
    begin(world, world.log)
    serve(world, world.log, 11)
    lose(world, world.log, "its process has ended")
    lose(world, world.log, "Ray says so, too")
    begin(world, world.log)
    lose(world, world.log, "not there yet")
    begin(world, world.log)
    serve(world, world.log, 12)
    world.lifecycle.see(world.log)
    assert world.rows[0]["ts"] == 1
    assert {(row["kind"], row["seen_by"]) for row in world.rows} == {("log", "controller")}
    assert world.new_rows() == [
        ("log-0", "starting", None, None, None),
        ("log-0", "serving", 11, None, None),
        ("log-0", "lost", 11, None, "its process has ended"),
        ("log-0", "starting", None, None, None),
        ("log-0", "serving", 12, None, None),
    ]


def test_a_new_reason_why_an_actor_cannot_start_is_reported(world: World) -> None:
    for error in (None, "no port", "no port", "no disk"):
        world.log.error = error
        begin(world, world.log)
        world.log.state = ActorState.FAILED
        world.lifecycle.see(world.log, error)
    assert [(row[1], row[4]) for row in world.new_rows()] == [
        ("starting", None),
        ("starting", "no port"),
        ("starting", "no disk"),
    ]


def test_a_standby_serves_a_partition_until_its_actor_takes_over(world: World) -> None:
    serve(world, world.offsets, 21, epoch=4)
    lose(world, world.offsets, "its process has ended")
    begin(world, world.offsets)
    active_standby(world, world.offsets, 1, epoch=5)
    begin(world, world.offsets)
    world.offsets.active_standby = None
    world.lifecycle.see(world.offsets, "no standby serves in its place any more")
    active_standby(world, world.offsets, 2, epoch=6)
    serve(world, world.offsets, 22, epoch=7)
    assert world.new_rows() == [
        ("offsets-7", "serving", 21, 4, None),
        ("offsets-7", "lost", 21, 4, "its process has ended"),
        ("offsets-7", "starting", None, None, None),
        ("offsets-7", "serving", 101, 5, "standby-1 serves in its place"),
        ("offsets-7", "lost", 101, 5, "no standby serves in its place any more"),
        ("offsets-7", "serving", 102, 6, "standby-2 serves in its place"),
        ("offsets-7", "serving", 22, 7, "took over from standby-2"),
    ]


def test_a_move_is_no_loss_but_what_is_lost_in_it_is(world: World) -> None:
    serve(world, world.log, 11)
    world.lifecycle.moves(world.log, "n2")
    lose(world, world.log, "it moves")
    begin(world, world.log)
    serve(world, world.log, 12, node_id="n2")
    assert [row["node_id"] for row in world.rows] == ["n1", "n1", None, "n2"]
    assert world.new_rows()[1:] == [
        ("log-0", "moved", 11, None, "to node n2"),
        ("log-0", "starting", None, None, None),
        ("log-0", "serving", 12, None, None),
    ]
    serve(world, world.offsets, 21, epoch=1)
    world.lifecycle.moves(world.offsets, "n2")
    active_standby(world, world.offsets, 2, epoch=2)
    world.offsets.active_standby = None
    lose(world, world.offsets, "its process has ended")
    assert [row[1] for row in world.new_rows()] == ["serving", "moved", "serving", "lost"]


def test_what_a_new_controller_finds_was_not_started_for_it(world: World) -> None:
    world.lifecycle.found({"log-0", "offsets-7"})
    begin(world, world.log)
    serve(world, world.log, 11)
    active_standby(world, world.offsets, 1, epoch=3)
    lose(world, world.log, "its process has ended")
    begin(world, world.log)
    assert world.new_rows() == [
        ("log-0", "serving", 11, None, "found by a new controller"),
        ("offsets-7", "serving", 101, 3, "standby-1 serves in its place"),
        ("log-0", "lost", 11, None, "its process has ended"),
        ("log-0", "starting", None, None, None),
    ]


def test_what_is_stopped_is_not_lost(world: World) -> None:
    serve(world, world.log, 11)
    world.log.state = ActorState.DEAD
    world.lifecycle.stopped(world.log)
    world.lifecycle.stopped(world.offsets)
    assert world.new_rows() == [("log-0", "serving", 11, None, None), ("log-0", "stopped", 11, None, None)]


def test_a_client_of_the_controller_reports_when_it_is_lost_and_serves_again(world: World) -> None:
    seen = ControllerSeen(Lifecycle(world.rows.append, lambda: 5, seen_by="gateway-1"))
    seen.silent("it does not serve yet")
    for _ in range(2):
        seen.answered(3)
    for _ in range(2):
        seen.silent("ActorDiedError")
    for _ in range(2):
        seen.answered(4)
    assert {(row["seen_by"], row["kind"]) for row in world.rows} == {("gateway-1", "controller")}
    assert world.new_rows() == [
        ("controller", "lost", None, 3, "ActorDiedError"),
        ("controller", "serving", None, 4, None),
    ]


def test_rows_of_a_killed_controller_are_written_by_the_next(tmp_path: Path) -> None:
    """Rows are in the table's files, whichever columns are null; nothing of the first writer was flushed."""

    def writer() -> EventWriter:
        return EventWriter(tmp_path, "lifecycle", "controller", flush_ms=3_600_000, now_ms=lambda: 1)

    async def next_controller() -> None:
        second = writer()
        second.start()
        Lifecycle(second.add, lambda: 2_000).controller(Event.SERVING, Server(2, "n1", 9))
        await second.close()

    first = writer()
    lifecycle = Lifecycle(first.add, lambda: 1_000)
    lifecycle.controller(Event.STARTING, Server(1, None))
    _kill(first)
    asyncio.run(next_controller())
    rows = table_rows(tmp_path, "lifecycle")
    assert [(row["ts"], row["event"], row["pid"], row["epoch"]) for row in rows] == [
        (1_000, "starting", 1, None),
        (2_000, "serving", 2, 9),
    ]


def _kill(writer: EventWriter) -> None:
    """Release the lock, as the kernel does for a killed process."""
    folder = writer._store._folder
    assert folder is not None
    folder.release()
