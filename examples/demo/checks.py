"""Checks of the demo against its observations. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from examples.demo.arrivals import Arrived
from examples.demo.consumption import Consumption
from examples.demo.counters import Counted, differences
from examples.demo.page import Check, GroupLine
from examples.demo.received import Interval, missing_rows, union


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSeen:
    """Records that one consumer process received."""

    exit_code: int | None
    total: int
    intervals: Mapping[int, Sequence[Interval]]
    """By partition, in the order of arrival."""
    rows: bytes
    """Bitmap of row numbers, lowest bit first."""
    arrived: Arrived = field(default_factory=Arrived)


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    generation: int | None
    """None: no generation was accepted in time."""
    members: tuple[str, ...]
    """Member ids, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A committed offset, as an admin client read it."""

    at_s: float
    group: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSeen:
    client: str
    expected_members: int
    members: Sequence[MemberSeen]
    before: Membership
    """Right before the offsets-partition actor was killed."""
    after: Membership
    """Once its replacement answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """One actor that was killed."""

    name: str
    at_s: float
    pid_before: int
    pid_after: int | None
    """At the end; None if the actor is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Observations of the demo."""

    rows: int
    delivered: int
    undelivered: int
    ends: Mapping[int, int]
    """End offset by partition."""
    groups: Mapping[str, GroupSeen]
    commits: Sequence[Commit]
    """In the order in which they were read."""
    actor: Killed
    """The offsets-partition actor."""
    actor_group: str
    """The group that it owns."""
    gateway: Killed
    first_life: Counted
    """The counters of that gateway's first process right before it was killed."""
    counted: Counted
    """The counters of all gateways at the end."""
    consumption: Consumption | None
    """None: the Spark job failed."""
    started_s: float = 0.0
    """Unix time of second 0."""
    acknowledged: Arrived = field(default_factory=Arrived)
    """The arrivals of acknowledgements at the producer."""
    evidence_bytes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Bytes that the gateways sent, by group and evidence."""

    @property
    def records(self) -> int:
        return sum(self.ends.values())


def check_all(seen: Seen) -> list[Check]:
    """Return every check, in the order in which a reader would raise them."""
    return [
        _produced(seen),
        *(_reached(seen, name, group) for name, group in seen.groups.items()),
        *(_kept_generation(name, group) for name, group in seen.groups.items()),
        _goes_on(seen),
        _came_back(seen.actor),
        _came_back(seen.gateway),
        _never_back(seen),
        _all_committed(seen),
        *(_attributed(seen, name, group) for name, group in seen.groups.items()),
        _as_counted(seen),
        _nothing_unattributed(seen),
        _ended_well(seen),
    ]


def group_lines(seen: Seen) -> list[GroupLine]:
    """Return the report's line of each group."""
    totals = {} if seen.consumption is None else {total.group: total for total in seen.consumption.groups}
    lines = []
    for name, group in seen.groups.items():
        total = totals.get(name)
        consumed = consumed_offsets(group)
        lines.append(
            GroupLine(
                group=name,
                client=f"{group.client}, {len(group.members)} member{'s' if len(group.members) > 1 else ''}",
                consumed=consumed,
                consumed_again=sum(member.total for member in group.members) - consumed,
                attributed=total.distinct if total else 0,
                resent=total.resent if total else 0,
            )
        )
    return lines


def consumed_offsets(group: GroupSeen) -> int:
    """Count the distinct records of the topic that the group's consumers received."""
    return sum(last - first + 1 for found in _coverage(group).values() for first, last in found)


def _coverage(group: GroupSeen) -> dict[int, list[Interval]]:
    found: dict[int, list[Interval]] = {}
    for member in group.members:
        for partition, intervals in member.intervals.items():
            found.setdefault(partition, []).extend(intervals)
    return {partition: union(intervals) for partition, intervals in found.items()}


def _produced(seen: Seen) -> Check:
    return Check(
        name="every row is in the topic once",
        held=seen.delivered == seen.records == seen.rows and seen.undelivered == 0,
        detail=f"{seen.delivered:,} of {seen.rows:,} acknowledged, {seen.records:,} records in the topic",
    )


def _reached(seen: Seen, name: str, group: GroupSeen) -> Check:
    coverage = _coverage(group)
    gaps = {
        partition: end - sum(last - first + 1 for first, last in coverage.get(partition, ()) if last < end)
        for partition, end in seen.ends.items()
    }
    lost = {partition: count for partition, count in gaps.items() if count}
    rows = missing_rows((member.rows for member in group.members), seen.rows)
    detail = f"{seen.records:,} of {seen.records:,} records, {seen.rows:,} of {seen.rows:,} rows"
    if lost or rows:
        missing = ", ".join(f"{count:,} records of partition {partition}" for partition, count in lost.items())
        detail = f"missing: {missing or 'no record'}; {len(rows):,} rows, the first {rows[:3]}"
    return Check(name=f"every record reached {name}", held=not lost and not rows, detail=detail)


def _kept_generation(name: str, group: GroupSeen) -> Check:
    before, after = group.before, group.after
    same = before == after and before.generation is not None and len(before.members) == group.expected_members
    return Check(
        name=f"{name} kept its generation when the offsets-partition actor was killed",
        held=same,
        detail=f"generation {before.generation}, {len(before.members)} of {group.expected_members} members, unchanged"
        if same
        else f"before: {_membership(before)}; after: {_membership(after)}",
    )


def _membership(membership: Membership) -> str:
    return f"generation {membership.generation} with {', '.join(membership.members) or 'no members'}"


def went_on_after_s(commits: Iterable[Commit], group: str, killed_s: float) -> float | None:
    """Return the seconds from the kill until a read showed a higher offset than an earlier read after the kill."""
    first: dict[int, int] = {}
    for commit in commits:
        if commit.group != group or commit.at_s <= killed_s:
            continue
        if commit.offset > first.setdefault(commit.partition, commit.offset):
            return commit.at_s - killed_s
    return None


def _goes_on(seen: Seen) -> Check:
    """Check only commits before the gateway is killed: its failure could confuse the result."""
    before_the_other = [commit for commit in seen.commits if commit.at_s < seen.gateway.at_s]
    after_s = went_on_after_s(before_the_other, seen.actor_group, seen.actor.at_s)
    return Check(
        name=f"{seen.actor_group} went on committing after its actor was killed",
        held=after_s is not None,
        detail="no new committed offset before the gateway was killed"
        if after_s is None
        else f"a new committed offset {after_s:.1f} s after the kill, as read by another client",
    )


def _came_back(killed: Killed) -> Check:
    return Check(
        name=f"{killed.name} was killed and came back",
        held=killed.pid_after is not None and killed.pid_after != killed.pid_before,
        detail=f"pid {killed.pid_before} before, {killed.pid_after} after",
    )


def _never_back(seen: Seen) -> Check:
    highest: dict[tuple[str, int], int] = {}
    regressions = []
    for commit in seen.commits:
        key = (commit.group, commit.partition)
        if commit.offset < highest.get(key, -1):
            regressions.append(f"{commit.group} partition {commit.partition}: {commit.offset} after {highest[key]}")
        highest[key] = max(commit.offset, highest.get(key, -1))
    silent = sorted(set(seen.groups) - {group for group, _ in highest})
    problems = regressions[:3] + [f"no committed offset of {group} was ever read" for group in silent]
    return Check(
        name="no committed offset went back",
        held=not problems,
        detail="; ".join(problems) or f"{len(seen.commits):,} committed offsets read all along",
    )


def _all_committed(seen: Seen) -> Check:
    last = {(commit.group, commit.partition): commit.offset for commit in seen.commits}
    behind = [
        f"{group} partition {partition}: {last.get((group, partition))} of {end}"
        for group in seen.groups
        for partition, end in seen.ends.items()
        if end and last.get((group, partition)) != end
    ]
    return Check(
        name="every group committed up to the end of the topic",
        held=not behind,
        detail="; ".join(behind[:3]) or f"{len(seen.groups)} groups, {len(seen.ends)} partitions",
    )


def _attributed(seen: Seen, name: str, group: GroupSeen) -> Check:
    totals = {} if seen.consumption is None else {total.group: total for total in seen.consumption.groups}
    attributed = totals[name].distinct if name in totals else 0
    consumed = consumed_offsets(group)
    again = f", and {totals[name].resent:,} sent again" if name in totals else ""
    return Check(
        name=f"what the gateways attributed to {name} is what its consumers counted",
        held=seen.consumption is not None and attributed == consumed == seen.records,
        detail=f"{attributed:,} attributed, {consumed:,} consumed{again}",
    )


def _as_counted(seen: Seen) -> Check:
    totals = () if seen.consumption is None else seen.consumption.gateways
    sent = {(row.gateway, row.group): (row.messages, row.bytes) for row in totals if row.group is not None}
    wrong = list(differences(sent, seen.first_life, seen.counted))
    sums = [sum(amounts) for amounts in zip(*seen.counted.values(), strict=True)]
    return Check(
        name="Spark's totals are what the gateways' counters say, per gateway and group",
        held=bool(sent) and bool(sums) and not wrong,
        detail="; ".join(wrong[:3])
        or f"{' messages, '.join(f'{amount:,}' for amount in sums)} bytes counted by the processes at the end; "
        f"besides, of {seen.gateway.name}, what it had sent before it was killed",
    )


def _nothing_unattributed(seen: Seen) -> Check:
    if seen.consumption is None:
        return Check(name="nothing is unattributed", held=False, detail="the Spark job failed")
    rest = seen.consumption.unattributed
    return Check(
        name="nothing is unattributed",
        held=not rest,
        detail="; ".join(
            f"{row.messages:,} messages of {row.topic} to {row.client_id}: {row.reason}" for row in rest[:3]
        )
        or "0 messages",
    )


def _ended_well(seen: Seen) -> Check:
    bad = [
        f"{name} ended with {member.exit_code}"
        for name, group in seen.groups.items()
        for member in group.members
        if member.exit_code != 0
    ]
    return Check(
        name="every consumer ended by itself after SIGTERM", held=not bad, detail="; ".join(bad) or "exit code 0"
    )
