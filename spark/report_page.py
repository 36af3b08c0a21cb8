"""The page of ``muster report`` and of ``--format html``: jobs' answers, with the plots that their sections ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from spark import plots
from spark.answer import Answer, Shown
from spark.jobs.job import Options, Plot
from spark.page import render_page
from spark.showing import cell

PAGE_ROWS = 200
"""Of one section; JSON has all."""
_CURVES = 4
"""As many as can be told from each other."""
_BARS = 24
_NOBODY = "(none)"
_UNFOLDED_ROWS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A section on the page."""

    shown: Shown
    rows: Sequence[tuple[Any, ...]]
    svg: str
    left_out: str
    """What of it the plot has not; empty: nothing."""
    more: str
    """Which rows the table has not; empty: none."""

    @property
    def folded(self) -> bool:
        """The table is long and what it says is drawn above it."""
        return bool(self.svg) and len(self.rows) > _UNFOLDED_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobOnPage:
    answer: Answer
    parts: Sequence[_Part]
    empty: Sequence[str]
    """Titles of the sections without rows."""


def render_answers(answers: Sequence[Answer], options: Options, damage: Sequence[str] = ()) -> str:
    """The page; ``damage`` says which jobs gave no answer, and why."""
    zone = ZoneInfo(options.timezone)
    names = _names(answers)
    jobs = [
        _JobOnPage(
            answer=answer,
            parts=[_part(section, zone, names) for section in answer.sections if section.rows],
            empty=[section.title for section in answer.sections if not section.rows],
        )
        for answer in answers
    ]
    title = f"Consumer groups: {answers[0].title}" if len(answers) == 1 else "Consumer groups: report"
    return render_page(
        "answers.html.j2", {"cell": cell}, title=title, facts=_facts(options, zone), jobs=jobs, damage=damage
    )


def _facts(options: Options, zone: ZoneInfo) -> list[tuple[str, str]]:
    start = _time(options.start, zone) if options.start else "the first row"
    end = _time(options.end, zone) if options.end else "the last row"
    groups = [("groups", ", ".join(sorted(options.groups)))] if options.groups else []
    return [("time", f"{start} to {end}"), *groups, ("written", _time(options.now, zone))]


def _time(moment: datetime, zone: ZoneInfo) -> str:
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S} {zone.key}"


def _names(answers: Sequence[Answer]) -> list[str]:
    """The groups in order, so that each has its colour in all plots."""
    return sorted(
        {
            str(value)
            for answer in answers
            for section in answer.sections
            if section.plot is not None and section.plot.series == ("group",)
            for value in section.values("group")
            if value is not None
        }
    )


def _part(shown: Shown, zone: ZoneInfo, names: Sequence[str]) -> _Part:
    svg, left_out = _drawn(shown, shown.plot, zone, names) if shown.plot is not None else ("", "")
    hidden = len(shown.rows) - PAGE_ROWS
    more = f"{hidden:,} rows" + (" and others" if shown.cut else "") if hidden > 0 else ""
    return _Part(shown=shown, rows=shown.rows[:PAGE_ROWS], svg=svg, left_out=left_out, more=more)


def _drawn(shown: Shown, plot: Plot, zone: ZoneInfo, names: Sequence[str]) -> tuple[str, str]:
    """The plot, and what it leaves out."""
    series = _joined(shown, plot.series) if plot.series else [plot.y_label] * len(shown.rows)
    if plot.kind == "lines":
        return _lines(shown, plot, zone, names, series)
    return _bars(shown, plot, names, series)


def _lines(shown: Shown, plot: Plot, zone: ZoneInfo, names: Sequence[str], series: Sequence[str]) -> tuple[str, str]:
    curves: dict[str, list[tuple[datetime, float | None]]] = {}
    for name, at, y in zip(series, shown.values(plot.x[0]), shown.values(plot.y), strict=True):
        if at is not None:
            curves.setdefault(name, []).append((at, None if y is None else float(y)))
    highest = {name: max((y for _, y in points if y is not None), default=0.0) for name, points in curves.items()}
    kept = sorted(sorted(curves, key=lambda name: (-highest[name], name))[:_CURVES])
    said = "; ".join(f"{name} at most {cell(highest[name])}" for name in kept)
    svg = plots.time_lines(
        {name: sorted(curves[name], key=lambda point: point[0]) for name in kept},
        names=_coloured(kept, names),
        label=f"{shown.title}, {plot.y_label}: {said}",
        y_label=plot.y_label,
        zone=zone,
    )
    left = len(curves) - len(kept)
    return svg, f"Drawn are the {_CURVES} highest; {left} more are in the table." if left > 0 else ""


def _bars(shown: Shown, plot: Plot, names: Sequence[str], series: Sequence[str]) -> tuple[str, str]:
    bars: dict[str, dict[str, float]] = {}
    for name, part, y in zip(_joined(shown, plot.x), series, shown.values(plot.y), strict=True):
        parts = bars.setdefault(name, {})
        parts[part] = parts.get(part, 0.0) + float(y or 0)
    kept: Mapping[str, Mapping[str, float]] = dict(list(bars.items())[:_BARS])
    parts_in_all = sorted({part for parts in kept.values() for part in parts})
    said = ", ".join(f"{name} {cell(sum(parts.values()))}" for name, parts in kept.items())
    svg = plots.stacked_bars(
        kept,
        names=_coloured(parts_in_all, names),
        label=f"{shown.title}, {plot.y_label}: {said}",
        x_label=plot.y_label,
    )
    left = len(bars) - len(kept)
    return svg, f"Drawn are the first {_BARS}; {left} more are in the table." if left > 0 else ""


def _coloured(drawn: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    """The page's names where they give what is drawn colours of its own, else what is drawn."""
    known = {name: place for place, name in enumerate(names)}
    places = [known[name] % _CURVES for name in drawn if name in known]
    return names if len(places) == len(drawn) == len(set(places)) else drawn


def _joined(shown: Shown, columns: Sequence[str]) -> list[str]:
    """What a row is called: the columns' values; ``flights-0`` for topic and partition."""
    cells = [shown.values(column) for column in columns]
    join = "-" if tuple(columns[-2:]) == ("topic", "partition") else " "
    return [join.join(_NOBODY if value is None else _word(value) for value in row) for row in zip(*cells, strict=True)]


def _word(value: Any) -> str:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else cell(value)
