"""A group in simulated time: partitions, members that take time to start, and what a sizing is shown of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.gateway.client.scaling.sizing import PartitionLag

TICK_S = 0.25
TOPIC = "t"

Arrival = Callable[[float, int], float]
"""Records per second at a time, in seconds, in a partition."""
Look = Callable[[float, Sequence[PartitionLag], int], int]


class Step(NamedTuple):
    """One look, and what it saw."""

    at_s: float
    rows: tuple[PartitionLag, ...]
    members: int
    size: int


@dataclass
class _Partition:
    end: float = 0.0
    read: float = 0.0
    committed: int = 0
    waiting: deque[list[float]] = field(default_factory=deque)
    """Records that are not committed: when they were appended, and how many."""

    def append(self, now_s: float, count: float) -> None:
        before, self.end = int(self.end), self.end + count
        if int(self.end) > before:
            self.waiting.append([now_s, int(self.end) - before])

    def commit(self) -> None:
        left = int(self.read) - self.committed
        self.committed += left
        while left > 0:
            taken = min(left, self.waiting[0][1])
            self.waiting[0][1] -= taken
            left -= int(taken)
            if self.waiting[0][1] == 0:
                self.waiting.popleft()

    def age_s(self, now_s: float) -> float:
        return now_s - self.waiting[0][0] if self.waiting else 0.0


@dataclass
class _Member:
    number: int
    ready_s: float
    commits_s: float


@dataclass
class SimulatedGroup:
    """Partitions are spread over the members that have started, one after the other, as a round robin assignor does."""

    arrival: Arrival
    partitions: int = 8
    rate: float = 300.0
    """Records per second that a member reads."""
    start_s: float = 20.0
    commit_s: float = 0.5
    look_s: float = 1.0
    rebalance_s: float = 0.0
    """How long nobody reads after a member came or went."""
    says_owners: bool = True
    says_ages: bool = True
    now_s: float = 0.0
    steps: list[Step] = field(default_factory=list)
    oldest_s: float = 0.0
    """The largest age of an unread record so far."""
    late_s: float | None = None
    """When a record was last unread for more than 10 s."""
    member_s: float = 0.0
    """Time that all members ran or started, in all."""

    def __post_init__(self) -> None:
        self.logs = [_Partition() for _ in range(self.partitions)]
        self._members: list[_Member] = []
        self._started = 0
        self._paused_s = 0.0
        self._looked_s = -self.look_s
        self._last_owners: list[int] = []

    def run(self, look: Look, until_s: float) -> SimulatedGroup:
        while self.now_s < until_s:
            self._produce()
            self._consume()
            self._note()
            if self.now_s - self._looked_s >= self.look_s:
                self._looked_s = self.now_s
                rows = self.rows()
                size = look(self.now_s, rows, len(self._members))
                self.steps.append(Step(self.now_s, rows, len(self._members), size))
                self._resize(size)
            self.now_s += TICK_S
        return self

    def rows(self) -> tuple[PartitionLag, ...]:
        owners = self._owners()
        return tuple(
            PartitionLag(
                TOPIC,
                index,
                log.committed,
                int(log.end),
                log.age_s(self.now_s) if self.says_ages else None,
                f"member-{owners[index].number}" if self.says_owners and owners else None,
            )
            for index, log in enumerate(self.logs)
        )

    @property
    def sizes(self) -> list[int]:
        """The sizes that were decided, without repetitions."""
        found = [step.size for step in self.steps]
        return [size for index, size in enumerate(found) if index == 0 or size != found[index - 1]]

    def _owners(self) -> list[_Member]:
        """Return the owner of each partition; an empty list if no member has started."""
        ready = [member for member in self._members if member.ready_s <= self.now_s]
        return [ready[index % len(ready)] for index in range(self.partitions)] if ready else []

    def _produce(self) -> None:
        for index, log in enumerate(self.logs):
            log.append(self.now_s, self.arrival(self.now_s, index) * TICK_S)

    def _consume(self) -> None:
        owners = self._owners()
        numbers = [member.number for member in owners]
        if numbers != self._last_owners:
            self._last_owners, self._paused_s = numbers, self.now_s + self.rebalance_s
        if self.now_s < self._paused_s:
            return
        for member in {member.number: member for member in owners}.values():
            room = self.rate * TICK_S
            mine = [log for log, owner in zip(self.logs, owners, strict=True) if owner is member]
            for log in mine:
                taken = min(room, log.end - log.read)
                log.read += taken
                room -= taken
            if self.now_s >= member.commits_s:
                member.commits_s = self.now_s + self.commit_s
                for log in mine:
                    log.commit()

    def _note(self) -> None:
        age_s = max(log.age_s(self.now_s) for log in self.logs)
        self.oldest_s = max(self.oldest_s, age_s)
        self.late_s = self.now_s if age_s > 10 else self.late_s
        self.member_s += len(self._members) * TICK_S

    def _resize(self, size: int) -> None:
        while len(self._members) < size:
            ready_s = self.now_s + self.start_s
            self._members.append(_Member(self._started, ready_s, ready_s + self.commit_s * (self._started % 4) / 4))
            self._started += 1
        for member in self._members[size:]:
            for log, owner in zip(self.logs, self._owners(), strict=False):
                if owner is member:
                    log.commit()
        del self._members[size:]
