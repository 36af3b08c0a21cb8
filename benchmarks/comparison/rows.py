"""Rows of the comparison: work that both servers do, in turn, and the goals for it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from benchmarks.comparison import load
from benchmarks.comparison.servers import Kind, Server

Measured = dict[str, float]
"""Figures of one round by name; names end in their unit."""
Measure = Callable[[Server, float], Measured]
"""Measures one server for so many seconds."""

_STEADY = 0.05
_WARM_UP_S = 1.0
_WARM_UPS = 10


class Wrong(RuntimeError):
    """Error in a server's response; its figures are worth nothing."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit for a figure: of Muster's value, or of Muster's divided by Kafka's."""

    figure: str
    at_least: float | None = None
    at_most: float | None = None
    of_kafka: bool = True

    def is_met(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    @property
    def text(self) -> str:
        limit = f"at least {self.at_least:g}" if self.at_least is not None else f"at most {self.at_most:g}"
        return f"{limit}x" if self.of_kafka else limit


@dataclass(frozen=True, slots=True)
class Row:
    """Comparison of both servers: ``open`` prepares them, and returns the measure of one of them."""

    name: str
    title: str
    open: Callable[[Server, Server], AbstractContextManager[Measure]]
    goals: tuple[Goal, ...] = ()
    steady: str = "per_second"
    """The figure that has to be steady before the first round; if empty, there is no warm-up."""
    seconds: float = 2.0
    """Length of a round."""
    starts_servers: bool = False
    """Whether the row starts servers itself; no others run meanwhile, and ``open`` gets :class:`NotStarted`."""
    kind: Kind = Kind.PLAIN
    """Kind of the servers that are started for it, and for others of that kind."""


@dataclass(slots=True)
class Rounds:
    """The figures of a row: one entry a round for each server, the same round at the same place."""

    row: str
    muster: list[Measured] = field(default_factory=list)
    kafka: list[Measured] = field(default_factory=list)
    failure: str = ""
    """Why there are no figures, or fewer rounds."""

    def median(self, server: str, figure: str) -> float:
        return statistics.median(self.values(server, figure))

    def spread(self, server: str, figure: str) -> tuple[float, float]:
        values = self.values(server, figure)
        return min(values), max(values)

    def ratio(self, figure: str) -> float:
        """Return the median of the rounds' ratios, Muster by Kafka."""
        pairs = zip(self.values("Muster", figure), self.values("Kafka", figure), strict=True)
        return statistics.median(ours / theirs if theirs else float("inf") for ours, theirs in pairs)

    def values(self, server: str, figure: str) -> list[float]:
        return [measured[figure] for measured in (self.muster if server == "Muster" else self.kafka)]


def compare(row: Row, muster: Server, kafka: Server, rounds: int) -> Rounds:
    """Warm both up until they are steady, then measure them in turn, with another one first in each round."""
    found = Rounds(row.name)
    try:
        with row.open(muster, kafka) as measure:
            for server in (muster, kafka):
                warm_up(row, measure, server)
            for number in range(rounds):
                measured = {server.name: measure(server, row.seconds) for server in _in_turn(muster, kafka, number)}
                found.muster.append(measured[muster.name])
                found.kafka.append(measured[kafka.name])
    except Exception as error:  # the other rows still count
        found.failure = f"{type(error).__name__}: {error}"
    return found


def warm_up(row: Row, measure: Measure, server: Server) -> None:
    """Measure until a figure differs by less than 5% from one second to the next."""
    before = 0.0
    for _ in range(_WARM_UPS if row.steady else 0):
        value = measure(server, _WARM_UP_S)[row.steady]
        if abs(value - before) <= _STEADY * value:
            return
        before = value


def _in_turn(muster: Server, kafka: Server, number: int) -> Iterator[Server]:
    servers: Sequence[Server] = (muster, kafka)
    return iter(servers if number % 2 == 0 else reversed(servers))


def measured(
    server: Server, plan: load.Plan, *, allowed: Sequence[int] = (), ended: Callable[[], None] = lambda: None
) -> Measured:
    """Run a plan, and add what it cost the server. Wrong if a response has an error that is not ``allowed``.

    ``ended`` is called while the connections are still open.
    """
    server.refresh()
    used: list[dict[str, float]] = []

    def look() -> None:
        used.append(server.cpu_s())

    def last() -> None:
        look()
        ended()

    result = load.run(replace(plan, tls=server.tls_address is not None), begun=look, ended=last)
    wrong = {code: count for code, count in result.errors.items() if code not in allowed}
    if wrong or not result.requests:
        raise Wrong(f"{server.name}: {result.requests} responses, errors {wrong}")
    before, after = used
    costs = {f"cpu_{role}_us": (after[role] - before[role]) / result.requests * 1e6 for role in after}
    return {
        "per_second": result.per_second,
        "p50_us": result.latency.p50,
        "p99_us": result.latency.p99,
        "p999_us": result.latency.p999,
        "cpu_us": sum(costs.values()),
        **costs,
        "mib_per_second": result.bytes / result.seconds / 2**20,
        "cycles": float(result.cycle.count),
        "cycle_p50_us": result.cycle.p50,
        "load_cpu_us": result.own_cpu_s / result.requests * 1e6,
    }
