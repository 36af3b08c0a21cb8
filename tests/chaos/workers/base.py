"""Base of the workers of all libraries: the order of their actions, and their journal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.chaos.journal import Journal, now_s
from tests.chaos.payload import name_of, value_of
from tests.chaos.workers.spec import Spec

Place = tuple[str, int]
"""Topic and partition."""
Offsets = dict[Place, int]
"""The next offset of each place."""

ROUND_S = 0.1
TICK_S = 1.0
MAX_IN_FLIGHT = 500
"""Unacknowledged records at which a producer stops sending."""
REQUEST_TIMEOUT_MS = 8_000
"""Time after which clients of all libraries consider a broker dead and try another."""
DELIVERY_TIMEOUT_MS = 180_000
"""Longer than any fault: the fate of a record that a producer gives up early is unknown."""
CALL_S = 30.0
"""Time limit of commit, flush and close."""
SESSION_MS, HEARTBEAT_MS = 10_000, 1_000


class EndedEarly(Exception):
    """SIGTERM came before the library had connected."""


class Worker:
    """A spec, a journal, and SIGTERM as the request to end in order."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.journal = Journal(Path(spec.journal))
        self.stopping = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self.stopping.set())
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the run, which then ends the worker
        self._ticked_s = 0.0
        fields = {"role": spec.role, "library": spec.library, "idempotent": spec.idempotent}
        self.journal.write("start", **fields, group=spec.group, mode=spec.mode)

    def tick(self) -> None:
        """Write a sign of life from time to time."""
        if now_s() - self._ticked_s >= TICK_S:
            self._ticked_s = now_s()
            self.journal.write("tick")

    def refused(self, what: str, error: BaseException | str) -> None:
        self.journal.write("refused", what=what, error=str(error)[:200])


class Producing(Worker):
    """Numbers its records over all topics, and writes to the journal what it sends before it does."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._places = [(topic, number) for topic, count in spec.topics.items() for number in range(count)]
        self._numbers = dict.fromkeys(self._places, 0)
        self._round = 0
        self._acked: list[tuple[str, int, int, str]] = []
        self._lock = threading.Lock()
        self.in_flight = 0

    def next_records(self) -> tuple[Place, list[tuple[str, bytes]]]:
        """Named records for the next partition in turn, written to the journal. None while too many are pending."""
        if self.in_flight >= MAX_IN_FLIGHT:
            return self._places[0], []
        place = self._places[self._round % len(self._places)]
        self._round += 1
        first = self._numbers[place]
        self._numbers[place] = last = first + max(1, int(self.spec.records_per_s * ROUND_S))
        producer = f"{self.spec.name}/{place[0]}-{place[1]}"
        self.journal.write("sent", topic=place[0], partition=place[1], producer=producer, first=first, last=last - 1)
        with self._lock:
            self.in_flight += last - first
        return place, [(f"{producer}:{number}", value_of(producer, number)) for number in range(first, last)]

    def acked(self, name: str, place: Place, offset: int | None) -> None:
        """From any thread. ``offset``: -1 or None if the library does not report it."""
        with self._lock:
            self.in_flight -= 1
            self._acked.append((place[0], place[1], -1 if offset is None else offset, name))

    def failed(self, name: str, error: BaseException | str) -> None:
        """From any thread."""
        with self._lock:
            self.in_flight -= 1
        self.refused(f"send {name}", error)

    def write_acked(self) -> None:
        """Write what was acknowledged since the last time."""
        with self._lock:
            acked, self._acked = self._acked, []
        if acked:
            self.journal.write("acked", records=acked)
        self.tick()


class Consuming(Worker):
    """Writes to the journal what it has read before it commits it, and what it will commit before it does."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.owned: set[Place] = set()
        self.pending: Offsets = {}
        """Read and not committed, of partitions that the member still owns."""

    def read(self, records: Iterable[tuple[str, int, int, bytes | None]]) -> Offsets:
        """Topic, partition, offset, value. Returns what must be committed now."""
        by_place: dict[Place, list[tuple[int, str]]] = {}
        for topic, partition, offset, value in records:
            by_place.setdefault((topic, partition), []).append((offset, name_of(value)))
        for (topic, partition), found in by_place.items():
            self.journal.write("read", topic=topic, partition=partition, records=found)
            self.pending[topic, partition] = found[-1][0] + 1
        self.tick()
        return dict(self.pending)

    def assigned(self, places: Iterable[Place], generation: int, member: str) -> None:
        """All partitions that it owns now."""
        self.owned = set(places)
        self.journal.write("assigned", generation=generation, member=member, partitions=sorted(self.owned))

    def revoked(self, places: Iterable[Place]) -> None:
        """Forget the partitions.

        The next owner continues from what is committed: a later commit of these would revert that.
        """
        gone = set(places)
        self.owned -= gone
        self.pending = {place: offset for place, offset in self.pending.items() if place not in gone}
        self.journal.write("revoked", partitions=sorted(gone))

    def committing(self, offsets: Offsets, generation: int | None) -> Any:
        """Context of a commit. ``generation`` is the request's, None if it is unknown, -1 without membership."""
        return self.journal.call("commit", CALL_S, generation=generation, offsets=flat(offsets))

    def may_commit(self, offsets: Offsets) -> None:
        """Note that the library may commit these at a time of its own."""
        self.journal.write("may-commit", offsets=flat(offsets))


def flat(offsets: Offsets) -> list[tuple[str, int, int]]:
    return [(topic, partition, offset) for (topic, partition), offset in sorted(offsets.items())]
