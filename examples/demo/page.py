"""The self-contained page about one run of the demo: no network, no script, light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from examples.demo.consumption import BUCKET_SECONDS, Consumption
from muster.spark.render import plots
from muster.spark.render.page import render_page
from muster.spark.render.plots import Event
from muster.spark.units import cell_in, lasting

AFTER_A_KILL_S = 5
"""Largest time from a kill to a wait that it may have caused."""
_UNATTRIBUTED = "(unattributed)"

Curves = Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Condition of a correct run."""

    name: str
    held: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A part of the answer."""

    label: str
    word: str
    """The label on a terminal."""
    figure: str
    details: Sequence[str]
    """Sentences, the first one first."""
    short: str
    """The rest of the figure's line on a terminal."""
    is_good: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitLine:
    """The longest waits of a client."""

    label: str
    longest: Sequence[str]
    """With units: after each kill, and apart from the kills."""


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
    subtitle: str
    facts: Sequence[Fact]
    setup: Sequence[tuple[str, str]]
    """Label and value."""
    checks: Sequence[Check]
    groups: Sequence[GroupLine]
    wait_heads: Sequence[str]
    waits: Sequence[WaitLine]
    lag: Curves
    """By group: seconds since the start, and the age in seconds of the oldest record that the group did not have."""
    events: Sequence[Event]
    consumption: Consumption = field(repr=False)


def render(report: Report) -> str:
    """Return the page."""
    consumption = report.consumption
    rates = _rates(report)
    across = _across(report, rates)
    return render_page(
        "page.html.j2",
        {"number": lambda value: f"{value:,}", "size": lambda value: cell_in(value, "bytes")},
        package="examples.demo",
        report=report,
        held=all(check.held for check in report.checks),
        partitions=consumption.partitions,
        group_bytes={total.group: total.bytes for total in consumption.groups},
        unattributed=consumption.unattributed,
        unattributed_messages=sum(row.messages for row in consumption.unattributed),
        unattributed_bytes=sum(row.bytes for row in consumption.unattributed),
        lag_plot=_lag(report, across),
        rate_plot=_rate(report, rates, across),
        bytes_plot=_bytes(report),
        seconds=BUCKET_SECONDS,
        after_a_kill_s=AFTER_A_KILL_S,
    )


def _across(report: Report, rates: Curves) -> tuple[float, float] | None:
    """Return the range of every time axis."""
    moments = [at_s for curves in (report.lag, rates) for curve in curves.values() for at_s, _ in curve]
    moments += [event.at_s for event in report.events]
    return (min(moments), max(moments)) if len(set(moments)) > 1 else None


def _lag(report: Report, across: tuple[float, float] | None) -> str:
    highest = {name: max(curve, key=lambda point: point[1]) for name, curve in report.lag.items() if curve}
    said = "; ".join(f"{name} at most {lasting(lag_s)}, at {at_s:.0f} s" for name, (at_s, lag_s) in highest.items())
    return plots.lines(
        report.lag,
        report.events,
        names=_names(report),
        label=f"Lag of each group in seconds: {said or 'none'}. {_marked(report)}",
        y="lag_seconds",
        y_label="age of the oldest record not received",
        steps=False,
        across=across,
    )


def _rates(report: Report) -> dict[str, list[tuple[float, float]]]:
    """Return the bytes per second by group in time buckets; a bucket without bytes is a zero, not a gap."""
    size = BUCKET_SECONDS
    sums: dict[str, dict[int, int]] = {}
    for row in report.consumption.sent:
        name = row.group if row.group is not None else _UNATTRIBUTED
        sums.setdefault(name, {})[int(row.bucket.timestamp())] = row.bytes
    order = {name: place for place, name in enumerate(_names(report))}
    starts = sorted({start for buckets in sums.values() for start in buckets})
    return {
        name: [
            (max(0.0, start - report.started_s), buckets.get(start, 0) / size)
            for start in range(starts[0], starts[-1] + 2 * size, size)
        ]
        for name, buckets in sorted(sums.items(), key=lambda item: (item[0] not in order, order.get(item[0], 0)))
    }


def _rate(report: Report, rates: Curves, across: tuple[float, float] | None) -> str:
    said = "; ".join(
        f"{name} at most {cell_in(max(rate for _, rate in curve), 'bytes_per_second')}" for name, curve in rates.items()
    )
    return plots.lines(
        rates,
        report.events,
        names=_names(report),
        label=f"Bytes per second sent to each group, in steps of {BUCKET_SECONDS} seconds: {said}. {_marked(report)}",
        y="bytes_per_second",
        y_label="bytes per second",
        steps=True,
        across=across,
    )


def _marked(report: Report) -> str:
    kills = "; ".join(f"{event.label} at {event.at_s:.0f} s" for event in report.events)
    return f"Marked: {kills or 'nothing'}."


def _bytes(report: Report) -> str:
    bars: dict[str, dict[str, float]] = {}
    for row in report.consumption.partitions:
        bars.setdefault(f"{row.topic}-{row.partition}", {})[row.group] = float(row.bytes)
    totals = ", ".join(f"{name} {sum(parts.values()):,.0f}" for name, parts in bars.items())
    label = f"Bytes sent per topic partition: {totals}"
    return plots.stacked_bars(bars, names=_names(report), label=label, x="bytes", x_label="bytes sent")


def _names(report: Report) -> list[str]:
    return [line.group for line in report.groups]
