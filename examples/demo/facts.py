"""Answer of a run: outages, losses, and groups of the bytes. Pure."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from examples.demo.arrivals import MIN_WAIT_S, STEP_S, Arrived, Wait, lag_of, waits_of
from examples.demo.checks import Killed, Seen, group_lines
from examples.demo.page import AFTER_A_KILL_S, Fact, WaitLine
from examples.demo.received import missing_rows
from muster.spark.units import cell_in, lasting

PRODUCER = "producer"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outage:
    """A wait; if something was killed meanwhile, the part of it before or after that."""

    client: str
    """A group, or the producer."""
    partition: int | None
    seconds: float
    killed: Killed | None
    """Killed at its beginning, or at most :data:`AFTER_A_KILL_S` before; None: nothing was."""
    until_s: float
    """Its end, in seconds after that kill."""

    @property
    def is_commit(self) -> bool:
        return self.partition is None


def facts(seen: Seen) -> list[Fact]:
    """Return the three facts that a reader wants first."""
    return [_out(seen), _lost(seen), _whose(seen)]


def wait_lines(seen: Seen) -> list[WaitLine]:
    """Return the longest waits of the producer and of each group: after each kill, and apart from them."""
    phases = (*_kills(seen), None)
    outages = _outages(seen)
    lines = [(PRODUCER, PRODUCER, False)]
    for name in seen.groups:
        lines += [(f"{name}: records", name, False), (f"{name}: commits", name, True)]
    return [
        WaitLine(
            label=label,
            longest=[
                _longest_of(
                    each
                    for each in outages
                    if each.client == client and each.killed is phase and each.is_commit is is_commit
                )
                for phase in phases
            ],
        )
        for label, client, is_commit in lines
    ]


def wait_heads(seen: Seen) -> list[str]:
    """Return the heads of the columns of :func:`wait_lines`."""
    return [*(f"after {killed.name} was killed" for killed in _kills(seen)), "apart from the kills"]


def lag_curves(seen: Seen) -> dict[str, list[tuple[float, float]]]:
    """Return the lag of each group, by seconds since the start, in steps of :data:`STEP_S`; empty if nothing
    arrived."""
    lags = {name: lag_of(member.arrived for member in group.members) for name, group in seen.groups.items()}
    steps = [step for lag_s in lags.values() for step in lag_s]
    if not steps:
        return {}
    return {
        name: [(step * STEP_S - seen.started_s, lag_s.get(step, 0.0)) for step in range(min(steps), max(steps) + 2)]
        for name, lag_s in lags.items()
    }


def _kills(seen: Seen) -> Sequence[Killed]:
    return sorted((seen.actor, seen.gateway), key=lambda killed: killed.at_s)


def _outages(seen: Seen) -> list[_Outage]:
    clients: dict[str, Sequence[Arrived]] = {PRODUCER: [seen.acknowledged]}
    clients |= {name: [member.arrived for member in group.members] for name, group in seen.groups.items()}
    return [
        outage
        for client, arrived in clients.items()
        for wait in waits_of(arrived)
        for outage in _phases(seen, client, wait)
    ]


def _phases(seen: Seen, client: str, wait: Wait) -> Iterator[_Outage]:
    """Yield the parts of a wait: kills divide it."""
    kills = _kills(seen)
    starts_s = [-math.inf, *(seen.started_s + killed.at_s for killed in kills), math.inf]
    for killed, (start_s, end_s) in zip((None, *kills), pairwise(starts_s), strict=True):
        from_s, to_s = max(wait.from_s, start_s), min(wait.to_s, end_s)
        if to_s - from_s >= MIN_WAIT_S:
            is_outage = killed is not None and from_s - start_s < AFTER_A_KILL_S
            yield _Outage(
                client=client,
                partition=wait.partition,
                seconds=to_s - from_s,
                killed=killed if is_outage else None,
                until_s=to_s - start_s if is_outage else 0.0,
            )


def _longest(outages: Iterable[_Outage]) -> _Outage | None:
    return max(outages, key=lambda each: each.seconds, default=None)


def _longest_of(outages: Iterable[_Outage]) -> str:
    longest = _longest(outages)
    return _shown(longest.seconds) if longest else f"< {_shown(MIN_WAIT_S)}"


def _out(seen: Seen) -> Fact:
    outages = _outages(seen)
    longest = _longest(each for each in outages if each.killed is not None)
    said, short = [], "nobody waited longer after a kill"
    if longest is not None and longest.killed is not None:
        killed = longest.killed
        date = time.strftime("%Y-%m-%d", time.gmtime(seen.started_s + killed.at_s))
        until = f"until {_shown(longest.until_s)} after {killed.name} was killed on {date} at {_clock(seen, killed)}"
        said = [_sentence(f"{_what(longest)}, {until}")]
        short = f"{_whom(longest)}, after {killed.name} was killed"
    for killed in _kills(seen):
        if longest is None or killed is not longest.killed:
            said.append(f"After {killed.name} was killed at {_clock(seen, killed)}: {_at_most(outages, killed)}.")
    return Fact(
        label="Longest out after a kill",
        word="Out",
        figure=_longest_of(each for each in outages if each.killed is not None),
        details=[*said, f"Apart from the kills: {_at_most(outages, None)}."],
        short=short,
    )


def _at_most(outages: Iterable[_Outage], killed: Killed | None) -> str:
    longest = _longest(each for each in outages if each.killed is killed)
    return f"at most {_shown(longest.seconds)} ({_whom(longest)})" if longest else f"less than {_shown(MIN_WAIT_S)}"


def _what(outage: _Outage) -> str:
    """Name the client, and the object of its wait."""
    if outage.is_commit:
        return f"{outage.client} waited for a commit"
    if outage.client == PRODUCER:
        return f"the producer waited for an acknowledgement from partition {outage.partition}"
    return f"{outage.client} waited for a record of partition {outage.partition}"


def _whom(outage: _Outage) -> str:
    if outage.client == PRODUCER:
        return PRODUCER
    return f"{outage.client}'s {'commits' if outage.is_commit else 'records'}"


def _clock(seen: Seen, killed: Killed) -> str:
    return time.strftime("%H:%M:%S UTC", time.gmtime(seen.started_s + killed.at_s))


def _shown(seconds: float) -> str:
    return lasting(round(seconds, 2))


def _lost(seen: Seen) -> Fact:
    missing = {
        name: missing_rows((member.rows for member in group.members), seen.rows) for name, group in seen.groups.items()
    }
    lost = {row for rows in missing.values() for row in rows}
    twice, again = max(0, seen.records - seen.delivered), sum(line.consumed_again for line in group_lines(seen))
    behind = ", ".join(f"{name} lacks {len(rows):,}" for name, rows in missing.items() if rows)
    counts = f"{twice:,} written twice, {again:,} received again"
    return Fact(
        label="Records lost",
        word="Lost",
        figure=f"{len(lost):,} of {seen.rows:,}",
        details=[_sentence(behind or f"each of the {len(missing)} groups received every record"), _sentence(counts)],
        short=f"{behind}; {counts}" if behind else counts,
        is_good=not lost and not twice,
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _whose(seen: Seen) -> Fact:
    label, word = "Whose bytes", "Whose"
    if seen.consumption is None:
        failed = "the Spark job failed"
        return Fact(label=label, word=word, figure="unknown", details=[_sentence(failed)], short=failed, is_good=False)
    by_group = {total.group: total.bytes for total in seen.consumption.groups}
    rest = sum(row.bytes for row in seen.consumption.unattributed)
    known = sum(by_group.values())
    groups = ", ".join(f"{name} {cell_in(size, 'bytes')}" for name, size in by_group.items())
    return Fact(
        label=label,
        word=word,
        figure=f"{_share(known, known + rest)} known",
        details=[
            f"{cell_in(known, 'bytes')} of {cell_in(known + rest, 'bytes')} have a group: {groups}.",
            f"Evidence: {_evidence(seen.evidence_bytes)}.",
        ],
        short=groups,
        is_good=bool(known) and not rest,
    )


def _evidence(evidence_bytes: Mapping[tuple[str, str], int]) -> str:
    sums: dict[str, int] = {}
    for (_, evidence), size in evidence_bytes.items():
        sums[evidence] = sums.get(evidence, 0) + size
    known = sum(sums.values())
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{evidence} {_share(size, known)}" for evidence, size in ordered) or "none"


def _share(part: int, whole: int) -> str:
    """Return the share in percent; 100 % is all of it."""
    if part == whole:
        return "100%" if whole else "0%"
    return f"{min(part / whole, 0.999):.1%}"
