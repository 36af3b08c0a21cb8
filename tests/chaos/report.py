"""Summary of a run: amounts, losses, and the time to recover from each fault."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from muster.placement.hashing import partition_for
from tests.chaos.history import History, Life, Span, Step
from tests.chaos.plan import OFFSETS_PARTITIONS
from tests.chaos.rules.calls import lost_its_coordinator
from tests.chaos.rules.violation import Violation

_BOUNDS_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


def report(history: History, violations: Sequence[Violation], minutes: float) -> str:
    """Return a few dozen lines for people."""
    return "\n".join(_lines(history, violations, minutes))


def _lines(history: History, violations: Sequence[Violation], minutes: float) -> Iterator[str]:
    acked = [commit for commit in history.commits if commit.acked]
    yield (
        f"{minutes:g} minutes, {len(history.steps)} faults; {len(history.acked)} records acknowledged, "
        f"{len(history.reads)} read by {len(history.groups)} groups, {len(acked)} commits acknowledged, "
        f"{len(history.fetched)} offsets fetched, {len(history.lives)} client processes"
    )
    if history.transactions:
        ends = Counter(
            {True: "committed", False: "aborted", None: "unknown"}[t.committed] for t in history.transactions
        )
        yield "transactions: " + ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
    made = Counter(_what(step) for step in history.steps if not step.failed)
    failed = Counter((step.kind, step.failed) for step in history.steps if step.failed)
    yield "faults: " + ", ".join(f"{what} {count}" for what, count in sorted(made.items()))
    for (kind, why), count in sorted(failed.items()):
        yield f"  not made: {kind} {count}: {why}"
    yield "time until all whom it concerned went on (s):"
    yield from _histogram(history)
    texts = (text for life in history.lives.values() for text in life.refusals)
    refusals = Counter(text.partition(":")[0].split(" ")[0] for text in texts)
    refused = ", ".join(f"{what} {count}" for what, count in refusals.most_common())
    yield f"what clients were refused: {refused or '-'}"
    abandoned = [life.name for life in history.lives.values() if lost_its_coordinator(history, life)]
    if abandoned:
        yield f"ended by librdkafka's issue 5511, and replaced: {', '.join(abandoned)}"
    if violations:
        yield f"VIOLATIONS: {len(violations)}"
        yield from (f"  {violation.rule}: {violation.text}" for violation in violations)
    else:
        yield "lost: nothing; no rule is violated"


def _histogram(history: History) -> Iterator[str]:
    """By kind of fault and target: how many recoveries took up to 0.5 s, 1 s and so on."""
    successes = _successes(history)
    times: dict[str, list[float]] = defaultdict(list)
    for step in history.steps:
        if not step.failed and (took_s := recovery_s(history.lives.values(), successes, step)) is not None:
            times[_what(step)].append(took_s)
    heads = [f"<{bound:g}" for bound in _BOUNDS_S] + ["more"]
    yield f"  {'':24}" + "".join(f"{head:>6}" for head in heads) + "   worst"
    for name, found in sorted(times.items()):
        counts = Counter(bisect_left(_BOUNDS_S, took_s) for took_s in found)
        cells = "".join(f"{counts[column] or '':>6}" for column in range(len(heads)))
        yield f"  {name:24}{cells}{max(found):8.1f}"


def recovery_s(lives: Iterable[Life], successes: Mapping[str, Sequence[Span]], step: Step) -> float | None:
    """Time from the fault until each affected worker has completed something that it started after it. None: none did.

    Affected: for an offsets partition the members of its groups, for a log actor the producers, otherwise all workers.
    For a pause, the time includes the pause.
    """
    took_s = []
    for life in lives:
        if not life.start_s < step.end_s < life.end_s or not _concerns(step, life):
            continue
        spans = successes.get(life.name, ())
        index = bisect_left(spans, (step.end_s, 0.0))
        if index < len(spans):
            took_s.append(spans[index][1] - step.begin_s)
    return max(took_s, default=None)


def _concerns(step: Step, life: Life) -> bool:
    kind, _, number = step.target.rpartition("-")
    if step.kind.startswith("client-"):
        return False
    if kind == "offsets":
        return bool(life.group) and partition_for(life.group, OFFSETS_PARTITIONS) == int(number)
    if kind == "transactions":
        return life.role == "transformer"
    return life.role in ("producer", "transformer") or kind != "log"


def _successes(history: History) -> dict[str, list[Span]]:
    """By worker, start and acknowledgement of acknowledged operations; sorted by start."""
    spans: dict[str, list[Span]] = defaultdict(list)
    for commit in history.commits:
        if commit.acked:
            spans[commit.worker].append((commit.begin_s, commit.end_s))
    for each in history.transactions:
        if each.committed:
            spans[each.worker].append((each.begin_s, each.end_s))
    sent: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for entry in history.sent:
        sent[entry.producer].append((entry.first, entry.at_s))
    for acked in history.acked:
        producer, _, number = acked.name.rpartition(":")
        index = bisect_left(sent[producer], (int(number) + 1, 0.0)) - 1
        spans[producer.partition("/")[0]].append((sent[producer][index][1], acked.at_s))
    for found in spans.values():
        found.sort()
    return spans


def _what(step: Step) -> str:
    if step.kind.startswith("client-") or step.kind == step.target:
        return step.kind
    return f"{step.kind} {step.target.rstrip('0123456789').rstrip('-')}"
