"""Deliberately broken write-ahead logs that the simulation must detect."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from muster.actors.log.errors import FencedEpoch
from muster.actors.log.wal import opening, writer
from muster.actors.log.wal.boundary import Boundary
from muster.actors.log.wal.objects import Entry, Kind, WalObject, name_of
from muster.actors.log.wal.patience import patiently
from muster.actors.log.wal.writer import Wal
from muster.actors.object_storage import store
from muster.actors.object_storage.store import NoSuchObject, ObjectStore, Taken, Unavailable
from tests.simulation.planted.planting import Change, Mutant, planting

MUTANTS: list[Mutant] = []
_mutant = planting(MUTANTS)
_LOST = ("nothing_acknowledged_is_lost", "a_fenced_writer_acknowledges_nothing", "what_was_read_stays")
_ANY = (
    *_LOST,
    *("nothing_counts_twice", "the_log_can_be_read", "a_late_opener_gives_up", "everything_gets_well"),
)
"""Two writers at once show in many ways."""


@_mutant(*_LOST, "nothing_is_acknowledged_after_the_end")
def _acknowledged_before_the_put_returns() -> list[Change]:
    append = Wal.append

    def mutant(self: Wal, entries: Sequence[Entry]) -> asyncio.Future[int]:
        append(self, entries).add_done_callback(lambda done: done.exception())
        early: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        early.set_result(self.next_number)
        return early

    return [(Wal, "append", mutant)]


@_mutant(*_LOST, "the_log_can_be_read")
def _a_name_that_is_taken_is_a_success() -> list[Change]:
    return [(store, "_own", lambda name, content, found: found.etag)]


@_mutant("no_callback_fails")
def _a_conflict_that_left_nothing_counts_as_taken() -> list[Change]:
    async def mutant(self: ObjectStore, name: str, content: bytes) -> str:
        try:
            return await self._backend.create(name, content)
        except store.Condition:
            try:
                return store._own(name, content, await self._backend.read(name))
            except NoSuchObject:
                raise Taken(name, None) from None

    return [(ObjectStore, "create", mutant)]


@_mutant("everything_gets_well", *_LOST)
def _every_conflict_counts_as_fenced() -> list[Change]:
    async def mutant(self: ObjectStore, name: str, content: bytes) -> str:
        try:
            return await self._backend.create(name, content)
        except store.Condition:
            newer = WalObject(kind=Kind.FENCE, epoch=1 << 40, writer=bytes(16), number=0)
            raise Taken(name, store.Stored(newer.encode(), "")) from None

    return [(ObjectStore, "create", mutant)]


@_mutant("nothing_counts_twice", "the_log_can_be_read", *_LOST)
def _a_number_without_outcome_is_given_up() -> list[Change]:
    async def mutant(self: Wal, entries: Sequence[Entry]) -> int:
        while True:
            number = self._number
            fields: dict[str, Any] = {"epoch": self._epoch, "writer": self.writer, "number": number}
            content = WalObject(kind=Kind.DATA, **fields, entries=entries).encode()
            try:
                await self._store.create(name_of(self._role, number), content)
            except Unavailable:
                self._number += 1
                continue
            except Taken as taken:
                writer.refuse_newer(self._role, self._epoch, taken)
            else:
                self._number += 1
                return number
            self._number += 1

    return [(Wal, "_put", mutant)]


@_mutant(*_ANY)
def _any_epoch_is_stepped_over() -> list[Change]:
    return [(writer, "refuse_newer", lambda *_: None)]


@_mutant(*_ANY)
def _fences_are_collected() -> list[Change]:
    return [(writer, "FENCE_BYTES", -1)]


@_mutant(*_ANY)
def _the_newest_object_is_collected() -> list[Change]:
    return [(Wal, "_newest", property(lambda self: self._number))]


@_mutant(*_ANY)
def _a_number_that_was_freed_is_not_noticed() -> list[Change]:
    last = opening._last

    async def mutant(of: ObjectStore, role: str, at_least: int) -> int:
        return await last(of, role, at_least) if at_least < 0 else at_least

    return [(opening, "_last", mutant)]


@_mutant(*_ANY)
def _a_late_opener_goes_on() -> list[Change]:
    return [(opening, "_refuse_late", lambda *_: None)]


@_mutant("the_log_can_be_read")
def _the_boundary_is_ignored() -> list[Change]:
    read = Boundary.read

    async def mutant(of: ObjectStore, role: str) -> Boundary:
        boundary = await read(of, role)
        boundary.first = 0
        return boundary

    return [(Boundary, "read", mutant)]


@_mutant("the_log_can_be_read")
def _objects_are_deleted_before_the_boundary_moves() -> list[Change]:
    async def mutant(self: Wal, first: int) -> None:
        first = min(first, self._newest)
        if first > self._boundary.first:
            names = await patiently("", lambda: self._below(first))
            await patiently("", lambda: self._store.delete(names))
            await self._boundary.move(first, self._epoch, self.writer)

    return [(Wal, "collect", mutant)]


@_mutant(*_ANY)
def _who_moved_the_boundary_is_ignored_at_opening() -> list[Change]:
    read = Boundary.read

    async def mutant(of: ObjectStore, role: str) -> Boundary:
        boundary = await read(of, role)
        boundary._epoch = -1
        return boundary

    return [(Boundary, "read", mutant)]


@_mutant("the_boundary_never_goes_back", "the_log_can_be_read")
def _a_boundary_is_moved_by_the_etag_of_now() -> list[Change]:
    write = Boundary._write

    async def mutant(self: Boundary, content: bytes, _: str | None) -> str:
        return await write(self, content, self._etag)

    class Unlocked:
        async def __aenter__(self) -> None:
            pass

        async def __aexit__(self, *_: object) -> None:
            pass

    init = Wal.__init__

    def unlocked(self: Wal, *arguments: Any, **more: Any) -> None:
        init(self, *arguments, **more)
        self._collecting = Unlocked()  # type: ignore[assignment]

    return [(Boundary, "_write", mutant), (Wal, "__init__", unlocked)]


@_mutant("everything_gets_well")
def _a_boundary_that_another_writer_moved_ends_the_writer() -> list[Change]:
    async def mutant(self: Boundary, first: int, epoch: int, own: bytes) -> None:
        content = b"%d %d %s" % (first, epoch, own.hex().encode())
        try:
            self._etag = await patiently(self._name, partial(self._write, content, self._etag))
        except Taken as taken:
            raise FencedEpoch("the boundary was moved") from taken
        self.first = first

    return [(Boundary, "move", mutant)]
