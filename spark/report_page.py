"""The page of ``muster report`` and of ``--format html``: jobs' answers, with the plots that their sections ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from spark import plots
from spark.answer import Answer, Shown
from spark.findings import findings
from spark.jobs.job import Options, Plot
from spark.page import render_page
from spark.showing import cell

PAGE_ROWS = 200
"""Of one section; JSON has all."""
TOP_ROWS = 10
"""Of one section that are not folded away."""
_CURVES = 4
"""As many as can be told from each other."""
_BARS = 24
_NOBODY = "(none)"
_BYTES = ("bytes", "KiB", "MiB", "GiB", "TiB")
_LONG = 19
"""More than a moment has; in characters."""
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A section on the page."""

    shown: Shown
    top: Sequence[tuple[Any, ...]]
    rest: Sequence[tuple[Any, ...]]
    """Folded away."""
    svg: str
    left_out: str
    """What of it the plot has not; empty: nothing."""
    more: str
    """Which rows the table has not; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobOnPage:
    answer: Answer
    findings: Sequence[str]
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
            findings=findings(answer),
            parts=sorted(
                (_part(section, zone, names) for section in answer.sections if section.rows),
                key=lambda part: not part.svg,
            ),
            empty=[section.title for section in answer.sections if not section.rows],
        )
        for answer in answers
    ]
    title = f"Consumer groups: {answers[0].title}" if len(answers) == 1 else "Consumer groups: report"
    return render_page(
        "answers.html.j2",
        {"cell": cell_in, "is_long": _is_long},
        title=title,
        summary=_summary(answers),
        facts=_facts(options, zone),
        jobs=jobs,
        damage=damage,
    )


def _is_long(text: str) -> bool:
    """It may be broken anywhere, so that its table is no wider than the page."""
    return len(text) > _LONG


def cell_in(value: Any, column: str) -> str:
    """A value for people, in units that its column's name tells: bytes, seconds, a share."""
    if value is None or isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return cell(value)
    number = float(value)
    if column.endswith("bytes_per_second"):
        return f"{_sized(number)}/s"
    if column.endswith("bytes"):
        return _sized(number)
    if column.endswith("seconds") and not column.endswith("partition_seconds"):
        return _lasting(number)
    if column.endswith("share"):
        return f"{number:.1%}"
    return cell(round(number, 2)) if isinstance(value, float) and abs(number) >= 1 else cell(value)


def _sized(size_bytes: float) -> str:
    for unit in _BYTES[:-1]:
        if abs(size_bytes) < 1024:
            return f"{size_bytes:,.0f} B" if unit == "bytes" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:,.1f} {_BYTES[-1]}"


def _lasting(seconds: float) -> str:
    if abs(seconds) < _MINUTE_S:
        return f"{cell(round(seconds, 3))} s"
    whole = round(abs(seconds))
    if whole < _HOUR_S:
        text = f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    elif whole < _DAY_S:
        text = f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
    else:
        text = f"{whole // _DAY_S} d {whole % _DAY_S // _HOUR_S} h"
    return f"-{text}" if seconds < 0 else text


def _summary(answers: Sequence[Answer]) -> str:
    """What an operator asks first, in one line; of what the jobs did not answer, nothing."""
    sections = {(answer.job, section.name): section for answer in answers for section in answer.sections}
    said = []
    if (steps := sections.get(("consumption", "per_bucket"))) is not None and steps.rows:
        times = [at for at in steps.values("bucket") if at is not None]
        said.append(f"{min(times):%Y-%m-%d %H:%M} to {max(times):%Y-%m-%d %H:%M %Z}")
    if (charge := sections.get(("consumption", "chargeback"))) is not None:
        sent = list(zip(charge.values("group"), charge.values("bytes"), strict=True))
        total = sum(size for _, size in sent)
        nobody = sum(size for group, size in sent if group is None)
        count = sum(group is not None for group, _ in sent)
        said.append(f"{count:,} group{'' if count == 1 else 's'}, {_sized(total)} sent")
        if total:
            said.append(f"{nobody / total:.1%} of it without a group")
    if (lag := sections.get(("lag", "groups"))) is not None and lag.rows:
        verdicts = Counter(lag.values("verdict"))
        bad = [f"{count} {verdict}" for verdict, count in verdicts.most_common() if verdict != "OK"]
        said.append(f"lag: {', '.join(bad) or 'all groups OK'}")
    return " · ".join(said)


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
    top, rest = shown.rows[:TOP_ROWS], shown.rows[TOP_ROWS:PAGE_ROWS]
    return _Part(shown=shown, top=top, rest=rest, svg=svg, left_out=left_out, more=more)


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
