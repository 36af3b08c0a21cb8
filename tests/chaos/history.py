"""The content of a run's journals, in the form that the checker reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

Place = tuple[str, int]
"""Topic and partition."""
Span = tuple[float, float]
"""From and to, in seconds of the journals' clock."""


class Sent(NamedTuple):
    """Records ``<producer>:first`` to ``<producer>:last``; written before they were sent."""

    producer: str
    place: Place
    first: int
    last: int
    at_s: float


class Acked(NamedTuple):
    name: str
    place: Place
    offset: int
    """-1: the library did not report it."""
    at_s: float


class Read(NamedTuple):
    worker: str
    group: str
    place: Place
    offset: int
    name: str
    at_s: float


class Commit(NamedTuple):
    """One attempt to commit. It may have taken effect between ``begin_s`` and ``end_s``."""

    worker: str
    group: str
    place: Place
    offset: int
    generation: int | None
    """None: not known; -1: without membership."""
    begin_s: float
    end_s: float
    """inf: not known."""
    acked: bool


class Transformed(NamedTuple):
    """A record that a transformer writes for one that it has read."""

    name: str
    place: Place
    source: tuple[Place, int]
    """Partition and offset of the record that it is made of."""


@dataclass(slots=True)
class Transaction:
    """Written to the journal before it began."""

    worker: str
    group: str
    number: int
    records: tuple[Transformed, ...]
    offsets: dict[Place, int]
    """Offsets of the group that it commits."""
    begin_s: float
    end_s: float = inf
    """inf: its end is not known."""
    committed: bool | None = None
    """None: not known."""


class Fetched(NamedTuple):
    """A response to OffsetFetch; offset -1: nothing is committed."""

    group: str
    place: Place
    offset: int
    begin_s: float
    end_s: float


class Assigned(NamedTuple):
    """All partitions of a member after a rebalance."""

    group: str
    generation: int
    member: str
    places: tuple[Place, ...]
    worker: str
    at_s: float


class Call(NamedTuple):
    name: str
    begin_s: float
    end_s: float
    """inf: it did not end."""
    timeout_s: float


class Sample(NamedTuple):
    """One process at one time."""

    role: str
    pid: int
    at_s: float
    rss_bytes: int
    descriptors: int
    sockets: int


class Step(NamedTuple):
    """A fault that was made."""

    kind: str
    target: str
    begin_s: float
    end_s: float
    failed: str
    """Why it could not be made; empty on success."""


@dataclass(slots=True)
class Life:
    """One worker process."""

    name: str
    role: str = ""
    library: str = ""
    group: str = ""
    mode: str = ""
    idempotent: bool = False
    start_s: float = 0.0
    end_s: float = inf
    written_s: list[float] = field(default_factory=list)
    """When it wrote to its journal."""
    calls: list[Call] = field(default_factory=list)
    paused: list[Span] = field(default_factory=list)
    abandoned: Call | None = None
    """Because of it the process ended itself: it had not returned long after its timeout."""
    fatal: str = ""
    exit_code: int | None = None
    """None: it was killed on purpose."""
    refusals: list[str] = field(default_factory=list)


@dataclass(slots=True)
class History:
    """All events, each kind in the order of its journals."""

    topics: dict[str, int] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Group -> topics."""
    consumer_groups: frozenset[str] = frozenset()
    """Groups of KIP-848, in which each member has an epoch of its own."""
    shared_groups: frozenset[str] = frozenset()
    """Groups whose type changes: a consumer that joins an empty classic group begins the epochs anew."""
    lives: dict[str, Life] = field(default_factory=dict)
    transactional: frozenset[str] = frozenset()
    """Topics with records in transactions, and nothing else."""
    transactions: list[Transaction] = field(default_factory=list)
    ends: dict[Place, tuple[int, int]] = field(default_factory=dict)
    """At the end: where readers of committed records end, and where the partition does."""
    sent: list[Sent] = field(default_factory=list)
    acked: list[Acked] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    final: dict[Place, list[tuple[int, str]]] = field(default_factory=dict)
    """Offset and record of everything in the partition at the end."""
    commits: list[Commit] = field(default_factory=list)
    fetched: list[Fetched] = field(default_factory=list)
    assigned: list[Assigned] = field(default_factory=list)
    described: list[tuple[str, dict[str, list[Place]]]] = field(default_factory=list)
    """Group, and each member's partitions, from DescribeGroups of a Stable group."""
    samples: list[Sample] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    down: list[Span] = field(default_factory=list)
    """When the whole cluster was down."""
    phases: dict[str, float] = field(default_factory=dict)
    """warm, faults, quiet, end: the start of each."""
    not_alive: list[str] = field(default_factory=list)
    """Actors and processes that should run at the end and do not, with their state."""
    drained: dict[str, bool] = field(default_factory=dict)
    """Group -> whether it had committed everything in time."""


def read_history(folder: Path) -> History:
    """Read all journals ``*.jsonl`` in the folder. A last line that was cut off by a SIGKILL is ignored."""
    history = History()
    for path in sorted(folder.glob("*.jsonl")):
        events = list(_lines(path))
        if path.stem == "run":
            _run(history, events)
        elif path.stem.startswith("observer"):
            _observer(history, events)
        else:
            _worker(history, path.stem, events)
    _lives(history, folder)
    return history


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    """Yield the complete lines.

    They are read at once: a line may be half written, and its rest is no line of its own.
    """
    *lines, _ = path.read_text(encoding="utf-8").split("\n")
    return map(json.loads, lines)


def _life(history: History, name: str) -> Life:
    return history.lives.setdefault(name, Life(name))


def _lives(history: History, folder: Path) -> None:
    """Complete the lives of workers by the run's reports, which follow the workers' own."""
    end_s = history.phases.get("end", inf)
    for event in _lines(folder / "run.jsonl") if (folder / "run.jsonl").exists() else ():
        life = history.lives.get(event.get("worker", ""))
        if life is None:
            continue
        match event["e"]:
            case "worker-paused":
                life.paused.append((event["t"], event["until"]))
            case "worker-ended":
                life.exit_code = event["code"]
                life.end_s = max([event.get("alive", event["t"]), *life.written_s[-1:]])
    for life in history.lives.values():
        life.end_s = min(life.end_s, end_s)


def _run(history: History, events: Iterable[Mapping[str, Any]]) -> None:
    for event in events:
        match event["e"]:
            case "load":
                history.topics = event["topics"]
                history.transactional = frozenset(event.get("transactional", ()))
                history.consumer_groups = frozenset(event.get("consumer_groups", ()))
                history.shared_groups = frozenset(event.get("shared_groups", ()))
                history.groups = {group: tuple(topics) for group, topics in event["groups"].items()}
            case "phase":
                history.phases[event["name"]] = event["t"]
            case "down":
                history.down.append((event["since"], event["t"]))
            case "fault":
                history.steps.append(
                    Step(event["kind"], event["target"], event["begin"], event["t"], event.get("failed", ""))
                )
            case "sample":
                history.samples += [
                    Sample(role, pid, event["t"], *figures) for role, pid, *figures in event["processes"]
                ]
            case "alive":
                history.not_alive = event["bad"]
            case "drained":
                history.drained = event["groups"]


def _observer(history: History, events: Iterable[Mapping[str, Any]]) -> None:
    for event in events:
        match event["e"]:
            case "fetched":
                history.fetched += _fetched(event)
            case "described":
                members = {member: [(p[0], p[1]) for p in places] for member, places in event["members"].items()}
                history.described.append((event["group"], members))
            case "ends":
                history.ends = {(topic, number): (stable, end) for topic, number, stable, end in event["ends"]}
            case "log":
                place = (event["topic"], event["partition"])
                history.final.setdefault(place, []).extend((offset, name) for offset, name in event["records"])


def _worker(history: History, name: str, events: list[dict[str, Any]]) -> None:
    life = _life(history, name)
    open_calls: dict[int, dict[str, Any]] = {}
    transactions: dict[int, Transaction] = {}
    for event in events:
        at_s = event["t"]
        if event["e"] == "heartbeat":  # of another thread: no sign of life of the worker
            continue
        life.written_s.append(at_s)
        match event["e"]:
            case "start":
                life.start_s, life.role, life.library = at_s, event["role"], event["library"]
                life.group, life.mode, life.idempotent = event["group"], event["mode"], event["idempotent"]
            case "sent":
                place = (event["topic"], event["partition"])
                history.sent.append(Sent(event["producer"], place, event["first"], event["last"], at_s))
            case "acked":
                history.acked += [Acked(of, (topic, number), at, at_s) for topic, number, at, of in event["records"]]
            case "read":
                place = (event["topic"], event["partition"])
                history.reads += [Read(name, life.group, place, at, of, at_s) for at, of in event["records"]]
            case "assigned":
                places = tuple((topic, number) for topic, number in event["partitions"])
                history.assigned.append(Assigned(life.group, event["generation"], event["member"], places, name, at_s))
            case "may-commit":
                history.commits += [
                    Commit(name, life.group, (topic, number), offset, None, at_s, inf, False)
                    for topic, number, offset in event["offsets"]
                ]
            case "fetched":
                history.fetched += _fetched(event)
            case "transaction":
                transactions[event["id"]] = _transaction(life, event)
            case "transaction-ended":
                ended = transactions[event["id"]]
                ended.end_s, ended.committed = at_s, event["committed"]
            case "begin":
                open_calls[event["id"]] = event
            case "end":
                _ended(history, life, open_calls.pop(event["id"]), at_s, event.get("error", ""))
            case "abandoned":
                begun = open_calls[event["id"]]
                life.abandoned = Call(begun["call"], begun["t"], at_s, begun["timeout"])
            case "refused":
                life.refusals.append(f"{event['what']}: {event['error']}")
            case "fatal":
                life.fatal = event["error"]
    for event in open_calls.values():
        _ended(history, life, event, inf, "")
    history.transactions += transactions.values()


def _fetched(event: Mapping[str, Any]) -> list[Fetched]:
    return [
        Fetched(event["group"], (topic, partition), offset, event["begin"], event["t"])
        for topic, partition, offset in event["offsets"]
    ]


def _transaction(life: Life, event: Mapping[str, Any]) -> Transaction:
    records = [
        Transformed(name, (topic, partition), ((of_topic, of_partition), offset))
        for name, topic, partition, of_topic, of_partition, offset in event["records"]
    ]
    offsets = {(topic, partition): offset for topic, partition, offset in event["offsets"]}
    return Transaction(life.name, life.group, event["id"], tuple(records), offsets, event["t"])


def _ended(history: History, life: Life, begun: Mapping[str, Any], end_s: float, error: str) -> None:
    life.calls.append(Call(begun["call"], begun["t"], end_s, begun["timeout"]))
    if error:
        life.refusals.append(f"{begun['call']}: {error}")
    if begun["call"] != "commit":
        return
    acked = not error and end_s < inf
    history.commits += [
        Commit(
            life.name,
            life.group,
            (topic, number),
            offset,
            begun["generation"],
            begun["t"],
            end_s if acked else inf,
            acked,
        )
        for topic, number, offset in begun["offsets"]
    ]
