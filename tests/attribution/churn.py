"""Many short-lived groups with one address, one client id and one topic, in virtual time, seen by one gateway.

Each client belongs to a group of its own, joins, fetches over a connection of its own and leaves, as ``subscribe()``
and ``close()`` do. Its coordinator is elsewhere: the gateway sees only updates and Fetch connections.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from muster.actors.tables.rollup import Sample
from muster.gateway.attribution.account import Account, End
from muster.gateway.attribution.connection import ConnectionState
from muster.placement.mapping.registration import Registration, RegistrationUpdate
from tests.attribution.bench import CLIENT, HOST, NOW_MS, Bench, Coordinator, Sink

PARTITIONS = (0, 1, 2)
_TAG = 1_000_000
"""A sample's first offset identifies its client: the client's number times this."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Bounds of the random choices, in ms."""

    life: tuple[int, int] = (1_500, 8_000)
    """From the first to the last Fetch."""
    gap: tuple[int, int] = (0, 2_000)
    """Between a client of a lane and the next one."""
    begin: tuple[int, int] = (5, 60)
    """From the assignment to the first Fetch."""
    way: tuple[int, int] = (0, 3)
    """Delay of an update to the gateway."""
    poll: tuple[int, int] = (90, 130)


@dataclass
class Client:
    number: int
    connection: ConnectionState
    position: int = 0
    fetches: bool = False
    assigned_ms: int = 0
    began_ms: int = 0
    """The partitions to fetch from this gateway, as the client knows them."""
    left_ms: int = 0

    @property
    def group(self) -> str:
        return f"g{self.number}"


@dataclass
class Churn:
    """``lanes`` clients at a time; each lane has ``clients`` of them, one after another."""

    seed: int
    lanes: int = 6
    clients: int = 6
    timing: Timing = field(default_factory=Timing)
    leaves: bool = True
    """Whether LeaveGroup is sent; otherwise the session ends later."""
    pending_ms: int = 60_000

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers, self._order = itertools.count(), itertools.count()
        self._says = Coordinator()
        self._held: dict[str, Registration] = {}
        self._active: list[Client] = []
        self._clients: list[Client] = []
        self._to_come = self.lanes * self.clients
        self.sent: Counter[str] = Counter()
        self.labels: Counter[tuple[str, str | None, str | None]] = Counter()
        self.now_ms = self._delivered_ms = NOW_MS
        self._open_books()

    def run(self, *, restart_ms: int | None = None) -> None:
        """Until all clients have left and nothing is pending. The gateway is killed and restarted at that time."""
        for _ in range(self.lanes):
            self._in(self._random.randint(0, 3_000), lambda: self._come(self.clients))
        if restart_ms is not None:
            self._in(restart_ms, self._restart)
        self._in(1_000, self._settle)
        while self._events:
            self.now_ms, _, act = heapq.heappop(self._events)
            act()
        self.now_ms += self.pending_ms + 1_000
        self.bench.settle(self.now_ms)
        self._close_books()

    def right(self) -> int:
        return sum(count for (group, label, _), count in self.labels.items() if group == label)

    def alike(self) -> set[str]:
        """Return groups that may have started with another one and left with it: no order distinguishes them."""
        return {
            one.group
            for one in self._clients
            for other in self._clients
            if one is not other
            and one.assigned_ms <= other.began_ms
            and other.assigned_ms <= one.began_ms
            and abs(one.left_ms - other.left_ms) <= 4 * self.timing.poll[1]
        }

    def wrong(self) -> dict[tuple[str, str | None, str | None], int]:
        return {key: count for key, count in self.labels.items() if key[1] not in (None, key[0])}

    def unattributed(self) -> dict[tuple[str, str | None, str | None], int]:
        return {key: count for key, count in self.labels.items() if key[1] is None}

    def _in(self, ms: int, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + ms, next(self._order), act))

    def _lot(self, bounds: tuple[int, int]) -> int:
        return self._random.randint(*bounds)

    def _open_books(self) -> None:
        sink = Sink()
        self.bench = Bench(Account(sink, Sample, pending_ms=self.pending_ms), sink)
        self.bench.account.on_begun = self._exchange
        self.bench.account.replace(7, 1, self._held.values(), self.now_ms)

    def _close_books(self) -> None:
        for sample in [*self.bench.sink.final, *self.bench.sink.waiting.values()]:
            self.labels[f"g{sample.first_offset // _TAG}", sample.group, sample.reason or sample.evidence] += (
                sample.bytes
            )

    def _exchange(self) -> None:
        sent_ms, account = self.now_ms, self.bench.account
        self._deliver(1, lambda: account.heard(sent_ms))

    def _say(self, update: RegistrationUpdate) -> None:
        account = self.bench.account
        self._deliver(0, lambda: account.updates([update], self.now_ms))

    def _deliver(self, after_ms: int, act: Callable[[], None]) -> None:
        """Deliver the coordinator's updates, in the order of sending."""
        self._delivered_ms = max(self._delivered_ms, self.now_ms + after_ms + self._lot(self.timing.way))
        self._in(self._delivered_ms - self.now_ms, act)

    def _settle(self) -> None:
        self.bench.settle(self.now_ms)
        if self._to_come:
            self._in(1_000, self._settle)

    def _restart(self) -> None:
        ends = {(sample.group, sample.partition): sample.last_offset + 1 for sample in self.bench.sink.final}
        self._close_books()
        self._open_books()
        self.bench.account.resumes(
            [End(group, "m", HOST, CLIENT, "t", place, end % _TAG) for (group, place), end in ends.items() if group],
            self.now_ms,
        )
        for client in self._active:
            client.connection = ConnectionState(opened_ms=self.now_ms + self._lot((100, 400)))
            client.began_ms = self.now_ms + 500

    def _come(self, left: int) -> None:
        client = Client(next(self._numbers), ConnectionState())
        self._clients.append(client)
        joined = self._says.register(client.group, "m", known=False)
        self._held[client.group] = joined
        self._say(joined)
        self._in(self._lot((20, 60)), lambda: self._assign(client, left))

    def _assign(self, client: Client, left: int) -> None:
        assigned = self._says.register(client.group, "m", *PARTITIONS)
        self._held[client.group] = assigned
        client.assigned_ms = self.now_ms
        self._say(assigned)
        self._in(self.timing.begin[0] + self._lot((0, self.timing.begin[1])), lambda: self._begin(client, left))

    def _begin(self, client: Client, left: int) -> None:
        client.connection = ConnectionState(opened_ms=self.now_ms)
        client.fetches, client.began_ms = True, self.now_ms
        self._active.append(client)
        self._in(self._lot(self.timing.life), lambda: self._stop(client, left))
        self._poll(client)

    def _poll(self, client: Client) -> None:
        if not client.fetches:
            return
        if client.connection.opened_ms <= self.now_ms:
            self.bench.fetching(client.connection, dict.fromkeys(PARTITIONS, client.position), at_ms=self.now_ms)
            first = client.number * _TAG + client.position
            parts = [("t", partition, client.position, first, first, 1, 100, 1, 0, 0) for partition in PARTITIONS]
            self.bench.account.sent(client.connection, HOST, CLIENT, parts, self.now_ms)
            client.position += 1
            self.sent[client.group] += 100 * len(PARTITIONS)
        self._in(self._lot(self.timing.poll), lambda: self._poll(client))

    def _stop(self, client: Client, left: int) -> None:
        client.fetches = False
        self._active.remove(client)
        self._in(self._lot((1, 30)), lambda: self._leave(client, left))

    def _leave(self, client: Client, left: int) -> None:
        del self._held[client.group]
        client.left_ms = self.now_ms
        self._say(self._says.withdraw(client.group, "m", left=self.leaves))
        connection, account = client.connection, self.bench.account
        self._in(self._lot((1, 50)), lambda: account.closed(connection))
        self._to_come -= 1
        if left > 1:
            self._in(self._lot(self.timing.gap), lambda: self._come(left - 1))
