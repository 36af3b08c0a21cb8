"""Comparison of the gateways' counts for each group with what the packets show that it got."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from tests.attribution.captured.frames import Carried, Unreadable, carried, exchanges, topic_names
from tests.attribution.captured.scenarios import Scenario
from tests.attribution.captured.streams import connections
from tests.attribution.truth import RIGHT_SHARE, Books, Group, Outcome, Truth, compare, differences

BYTES, MESSAGES = UNITS = ("bytes", "messages")
_KIB = 1024


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario."""

    scenario: Scenario
    outcomes: Mapping[str, Outcome]
    """By unit."""
    differences: Sequence[tuple[str, str, int, int, int]]
    """Group, topic, partition, bytes received and bytes counted, where they differ."""
    labels: Mapping[str, int]
    """All counted bytes, by the evidence for their group or the reason why they have none."""

    @property
    def faults(self) -> list[str]:
        found = [] if self.outcomes[BYTES].total else ["nothing was received"]
        for unit, outcome in self.outcomes.items():
            if outcome.wrong:
                found.append(f"{outcome.wrong:,} {unit} under a group that did not get them")
            if outcome.miscounted:
                found.append(f"{outcome.miscounted:,} {unit} miscounted")
        if self.outcomes[BYTES].right_share < RIGHT_SHARE and not self.scenario.may_be_lost:
            found.append(f"less than {RIGHT_SHARE:.1%} right")
        return found


def read_packets(packets: Iterable[bytes], ports: Collection[int]) -> list[Carried]:
    """Return the content of all Fetch responses. Raises Unreadable."""
    found = [exchange for connection in connections(packets, ports) for exchange in exchanges(connection)]
    return list(carried(found, topic_names(found)))


def received(parts: Iterable[Carried], owners: Mapping[str, Group]) -> dict[str, Truth]:
    """Return what groups received, by unit; ``owners`` has the group of each client by its rack. Raises Unreadable."""
    found = {unit: Truth() for unit in UNITS}
    for part in parts:
        if part.rack is None or part.rack not in owners:
            raise Unreadable(f"{part} went to a client whose rack is nobody's")
        for unit, amount in ((BYTES, part.size_bytes), (MESSAGES, part.messages)):
            found[unit].receive(owners[part.rack], (part.topic, part.partition), amount)
    return found


def row(scenario: Scenario, truth: Mapping[str, Truth], books: Mapping[str, Books]) -> Row:
    """Compare what concerns the topics of one scenario."""
    prefix = f"{scenario.name}."
    ours = books[BYTES].of(prefix)
    labels: Counter[str] = Counter()
    for (label, _), size_bytes in (ours.evidence + ours.reasons).items():
        labels[label] += size_bytes
    return Row(
        scenario,
        {unit: compare(truth[unit].of(prefix), books[unit].of(prefix)) for unit in UNITS},
        differences(truth[BYTES].of(prefix), ours),
        labels,
    )


def print_rows(rows: Sequence[Row]) -> None:
    """Print a table of all scenarios, then the groups whose count differs from what they received."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("SCENARIO", "", "KiB", "MESSAGES", "RIGHT", "WRONG", "LOST", "KiB COUNTED AS", "HOLDS"):
        table.add_column(name, justify="right" if name in ("KiB", "MESSAGES", "RIGHT", "WRONG", "LOST") else "left")
    for each in rows:
        ours = each.outcomes[BYTES]
        lost = ours.total - ours.right - ours.wrong
        table.add_row(
            each.scenario.name,
            each.scenario.about,
            f"{ours.total / _KIB:,.0f}",
            f"{each.outcomes[MESSAGES].total:,}",
            *(f"{size_bytes / ours.total:.2%}" if ours.total else "-" for size_bytes in (ours.right, ours.wrong, lost)),
            ", ".join(f"{label} {size_bytes / _KIB:,.0f}" for label, size_bytes in sorted(each.labels.items())),
            "; ".join(each.faults) or "yes",
        )
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=220)
    console.print(table)
    for each in rows:
        for group, topic, partition, got, counted in each.differences:
            console.print(f"{group} got {got:,} bytes of {topic}-{partition}; counted: {counted:,}")
