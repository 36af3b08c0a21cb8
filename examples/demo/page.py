"""The self-contained page about one run of the demo: no network, no script, light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from examples.demo.consumption import BUCKET_SECONDS, Consumption
from muster.spark.render import plots
from muster.spark.render.page import render_page
from muster.spark.render.plots import Event

_UNATTRIBUTED = "(unattributed)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Something that had to hold."""

    name: str
    held: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLine:
    """One group, by its consumers' counts and by the gateways' samples. All in messages."""

    group: str
    client: str
    """Library and number of members."""
    consumed: int
    """Distinct messages by the consumers' own count."""
    consumed_again: int
    """Messages that the consumers received more than once."""
    attributed: int
    """Distinct messages that the gateways attributed to the group."""
    resent: int
    """Messages that the gateways sent to the group more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    title: str
    started_s: float
    """Unix time of second 0 of the time axes."""
    facts: Sequence[tuple[str, str]]
    """The setup of the run: label and value."""
    checks: Sequence[Check]
    groups: Sequence[GroupLine]
    progress: Mapping[str, Sequence[tuple[float, float]]]
    """Cumulative records by (seconds since the start), for the producer and each group."""
    events: Sequence[Event]
    consumption: Consumption = field(repr=False)


def render(report: Report) -> str:
    """The page."""
    consumption = report.consumption
    return render_page(
        "page.html.j2",
        {"number": lambda value: f"{value:,}"},
        package="examples.demo",
        report=report,
        held=all(check.held for check in report.checks),
        partitions=consumption.partitions,
        unattributed=consumption.unattributed,
        unattributed_messages=sum(row.messages for row in consumption.unattributed),
        rate_plot=_rate(report),
        progress_plot=_progress(report),
        bytes_plot=_bytes(report),
        seconds=BUCKET_SECONDS,
    )


def _rate(report: Report) -> str:
    """Messages per group in time buckets; a bucket without messages is a zero, not a gap."""
    size = BUCKET_SECONDS
    sums: dict[str, dict[int, int]] = {}
    for row in report.consumption.sent:
        name = row.group if row.group is not None else _UNATTRIBUTED
        sums.setdefault(name, {})[int(row.bucket.timestamp())] = row.messages
    starts = sorted({start for buckets in sums.values() for start in buckets})
    series = {
        name: [
            (max(0.0, start - report.started_s), buckets.get(start, 0) / size)
            for start in range(starts[0], starts[-1] + 2 * size, size)
        ]
        for name, buckets in sorted(sums.items())
    }
    label = f"Messages per second sent to each group, in steps of {size} seconds: " + "; ".join(
        f"{name} {sum(buckets.values()):,} in all" for name, buckets in sorted(sums.items())
    )
    return plots.lines(
        series,
        report.events,
        names=_names(report),
        label=label,
        y="messages_per_second",
        y_label="messages per second",
        steps=True,
    )


def _progress(report: Report) -> str:
    ends = ", ".join(f"{name} {points[-1][1]:,.0f}" for name, points in report.progress.items() if points)
    kills = "; ".join(f"{event.label} at {event.at_s:.0f} s" for event in report.events)
    label = f"Records in and out over time, in the end: {ends}. Marked: {kills or 'nothing'}."
    return plots.lines(
        report.progress, report.events, names=_names(report), label=label, y="records", y_label="records", steps=False
    )


def _bytes(report: Report) -> str:
    bars: dict[str, dict[str, float]] = {}
    for row in report.consumption.partitions:
        bars.setdefault(f"{row.topic}-{row.partition}", {})[row.group] = float(row.bytes)
    totals = ", ".join(f"{name} {sum(parts.values()):,.0f}" for name, parts in bars.items())
    label = f"Bytes sent per topic partition: {totals}"
    return plots.stacked_bars(bars, names=_names(report), label=label, x="bytes", x_label="bytes sent")


def _names(report: Report) -> list[str]:
    return [line.group for line in report.groups]
