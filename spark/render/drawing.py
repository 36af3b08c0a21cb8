"""Selection of a section's rows for its plot: the highest curves and the largest bars, and the omitted ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from muster.spark.jobs.job import Options, Plot
from muster.spark.render import plots
from muster.spark.render.plotted import BARS, CURVES
from muster.spark.render.showing import cell
from muster.spark.result import JobResult, Plotted, Shown

NOBODY = "(none)"
OTHERS = "(others)"

Curve: TypeAlias = list[tuple[datetime, float | None]]


def names_of(results: Sequence[JobResult]) -> list[str]:
    """Return the groups in order, so that each has the same colour in all plots."""
    return sorted(
        {
            _word(value)
            for result in results
            for section in result.sections
            if section.plot is not None and section.plot.series == ("group",)
            for value in section.values("group")
            if value is not None
        }
    )


def drawn(
    shown: Shown, plot: Plot, options: Options, names: Sequence[str], ranked: Sequence[str] = ()
) -> tuple[str, str]:
    """Return the plot as HTML, and in words what it leaves out of the section; empty if nothing.

    ``ranked``: the curves that a table beside it ranks, which are drawn first, in that order.
    """
    source = shown if shown.plotted is None else shown.plotted
    series = _joined(source, plot.series) if plot.series else [plot.y_label] * len(source.rows)
    heights = [None if y is None else float(y) for y in source.values(plot.y)]
    if plot.kind == "lines":
        curves = _curves(zip(series, source.values(plot.x[0]), heights, strict=True))
        return _lines(shown, plot, options, names, curves, ranked)
    bars = _bars(zip(_joined(source, plot.x), series, heights, strict=True))
    return _stacked(shown, plot, names, bars)


def _curves(points: Iterable[tuple[str, datetime | None, float | None]]) -> dict[str, Curve]:
    """Return curves by name. In UTC, since local clocks show an hour twice when they are set back."""
    curves: dict[str, Curve] = {}
    for name, at, y in points:
        if at is not None:
            curves.setdefault(name, []).append((at.astimezone(UTC), y))
    return {name: sorted(curve, key=lambda point: point[0]) for name, curve in curves.items()}


def _lines(
    shown: Shown,
    plot: Plot,
    options: Options,
    names: Sequence[str],
    curves: Mapping[str, Curve],
    ranked: Sequence[str],
) -> tuple[str, str]:
    highest = {name: max((y for _, y in curve if y is not None), default=0.0) for name, curve in curves.items()}
    first = [name for name in ranked if name in highest]
    kept = [*first, *(name for name in _largest(highest, len(highest)) if name not in first)][:CURVES]
    times = sorted({at for curve in curves.values() for at, _ in curve})
    seconds = options.bucket_seconds if shown.plotted is None else shown.plotted.step_seconds
    step = timedelta(seconds=seconds) if plot.absent_is_zero else _least_step(times)
    svg = plots.time_lines(
        {name: _with_absent(curves[name], times, step, plot) for name in kept},
        names=_coloured(kept, names),
        label=f"{shown.title}, {plot.y_label}: {'; '.join(f'{name} at most {cell(highest[name])}' for name in kept)}",
        y=plot.y,
        y_label=plot.y_label,
        zone=ZoneInfo(options.timezone),
    )
    said = []
    if (left := _in_all(shown, curves) - len(kept)) > 0:
        which = f"first {CURVES}" if first and shown.plotted is None else f"{CURVES} highest"
        said.append(f"Drawn are the {which}; {left:,} more are in the table.")
    if seconds > options.bucket_seconds:
        said.append(f"A point is the highest value of {seconds:,} s.")
    return svg, " ".join(said)


def _in_all(shown: Shown, found: Mapping[str, object]) -> int:
    return len(found) if shown.plotted is None else shown.plotted.in_all


def _least_step(times: Sequence[datetime]) -> timedelta:
    return min((later - earlier for earlier, later in pairwise(times)), default=timedelta(0))


def _with_absent(curve: Curve, times: Sequence[datetime], step: timedelta, plot: Plot) -> Curve:
    """Add points for steps of the plot's time without one: zero, or unknown."""
    found: Curve = []
    before = times[0] - step
    for at, y in [*curve, (times[-1] + step, None)]:
        if at - before > step:
            found += [(before + step, 0.0), (at - step, 0.0)] if plot.absent_is_zero else [(before + step, None)]
        found.append((at, y))
        before = at
    return found[:-1]


def _bars(parts: Iterable[tuple[str, str, float | None]]) -> dict[str, dict[str, float]]:
    """Return sums by bar and part, in the order of the rows; a bar without any number has no part."""
    bars: dict[str, dict[str, float]] = {}
    for name, part, size in parts:
        bar = bars.setdefault(name, {})
        if size is not None:
            bar[part] = bar.get(part, 0.0) + size
    return bars


def _stacked(
    shown: Shown, plot: Plot, names: Sequence[str], bars: Mapping[str, Mapping[str, float]]
) -> tuple[str, str]:
    count = _in_all(shown, bars)
    if count > BARS:
        sizes = {name: sum(bar.values()) for name, bar in bars.items()}
        bars = {name: bars[name] for name in _largest(sizes, BARS) if sizes[name]}
    left = count - len(bars)
    drawn = "is the largest" if len(bars) == 1 else f"are the {len(bars)} largest"
    bars = _with_few_parts(bars)
    said = ", ".join(f"{name} {cell(sum(bar.values())) if bar else plot.absent}" for name, bar in bars.items())
    svg = plots.stacked_bars(
        bars,
        names=_coloured(sorted({part for bar in bars.values() for part in bar}), names),
        label=f"{shown.title}, {plot.y_label}: {said}",
        x=plot.y,
        x_label=plot.y_label,
        absent=plot.absent,
    )
    return svg, f"Drawn {drawn}; {left:,} more are in the table." if left > 0 else ""


def _with_few_parts(bars: Mapping[str, Mapping[str, float]]) -> Mapping[str, Mapping[str, float]]:
    """Keep the largest parts over all bars, and the others as one."""
    sums: dict[str, float] = {}
    for bar in bars.values():
        for part, size in bar.items():
            sums[part] = sums.get(part, 0.0) + size
    sums.pop(NOBODY, None)
    if len(sums) <= CURVES:
        return bars
    kept = set(_largest(sums, CURVES))
    return {
        name: {part: size for part, size in bar.items() if part in kept}
        | {OTHERS: sum(size for part, size in bar.items() if part not in kept)}
        for name, bar in bars.items()
    }


def _largest(sizes: Mapping[str, float], count: int) -> list[str]:
    return sorted(sizes, key=lambda name: (-sizes[name], name))[:count]


def _coloured(drawn: Iterable[str], names: Sequence[str]) -> Sequence[str]:
    """Return the page's names if they give all curves or bars distinct colours, else the drawn ones. No group: grey."""
    own = [name for name in drawn if name not in (NOBODY, OTHERS)]
    known = {name: place for place, name in enumerate(names)}
    places = [known[name] % CURVES for name in own if name in known]
    return names if len(places) == len(own) == len(set(places)) else own


def _joined(source: Shown | Plotted, columns: Sequence[str]) -> list[str]:
    """Return the name of a row: the columns' values; ``flights-0`` for topic and partition."""
    cells = [source.values(column) for column in columns]
    join = "-" if tuple(columns[-2:]) == ("topic", "partition") else " "
    if len(columns) == 1 and all(map(_is_number, cells[0])):
        return [f"{columns[0].replace('_', ' ')} {value}" for value in cells[0]]  # gateway 1
    return [join.join(NOBODY if value is None else _word(value) for value in row) for row in zip(*cells, strict=True)]


def _word(value: Any) -> str:
    return str(value) if _is_number(value) else cell(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
