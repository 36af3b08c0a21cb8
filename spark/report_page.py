"""The page of ``muster report`` and of ``--format html``: jobs' answers, with the plots that their sections ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from spark.answer import Answer, Shown
from spark.drawing import drawn, names_of
from spark.findings import findings
from spark.jobs.job import Options
from spark.page import render_page
from spark.showing import cell

PAGE_ROWS = 200
"""Of one section; other formats have more."""
TOP_ROWS = 10
"""Of one section that are not folded away."""
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
    names = names_of(answers)
    jobs = [
        _JobOnPage(
            answer=answer,
            findings=findings(answer),
            parts=sorted(
                (_part(section, options, names) for section in answer.sections if section.rows),
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
        summary=_summary(answers, options),
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


def _summary(answers: Sequence[Answer], options: Options) -> str:
    """What an operator asks first, in one line; of what the jobs did not answer, nothing."""
    sections = {(answer.job, section.name): section for answer in answers for section in answer.sections}
    said = []
    if (steps := sections.get(("consumption", "per_bucket"))) is not None and steps.rows:
        times = [at for at in (steps.plotted or steps).values("bucket") if at is not None]
        said.append(f"{min(times):%Y-%m-%d %H:%M} to {max(times):%Y-%m-%d %H:%M %Z}")
    if (charge := sections.get(("consumption", "chargeback"))) is not None:
        said += _sent(charge, options)
    if (lag := sections.get(("lag", "groups"))) is not None and lag.rows:
        verdicts = Counter(lag.values("verdict"))
        bad = [f"{count} {verdict}" for verdict, count in verdicts.most_common() if verdict != "OK"]
        said.append(f"lag: {', '.join(bad) or 'all groups OK'}")
    return " · ".join(said)


def _sent(charge: Shown, options: Options) -> list[str]:
    sizes = list(zip(charge.values("group"), charge.values("bytes"), strict=True))
    count = sum(group is not None for group, _ in sizes)
    if charge.cut:
        return [f"{count:,} groups and more"]
    total = sum(size for _, size in sizes)
    said = [f"{count:,} group{'' if count == 1 else 's'}, {_sized(total)} sent"]
    if total and not options.groups:  # of some groups only, what has none is not asked for
        said.append(f"{sum(size for group, size in sizes if group is None) / total:.1%} of it without a group")
    return said


def _facts(options: Options, zone: ZoneInfo) -> list[tuple[str, str]]:
    start = _time(options.start, zone) if options.start else "the first row"
    end = _time(options.end, zone) if options.end else "the last row"
    groups = [("groups", ", ".join(sorted(options.groups)))] if options.groups else []
    return [("time", f"{start} to {end}"), *groups, ("as of", _time(options.now, zone))]


def _time(moment: datetime, zone: ZoneInfo) -> str:
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S} {zone.key}"


def _part(shown: Shown, options: Options, names: Sequence[str]) -> _Part:
    svg, left_out = drawn(shown, shown.plot, options, names) if shown.plot is not None else ("", "")
    hidden = len(shown.rows) - PAGE_ROWS
    more = f"{hidden:,} rows" + (" and others" if shown.cut else "") if hidden > 0 else ""
    top, rest = shown.rows[:TOP_ROWS], shown.rows[TOP_ROWS:PAGE_ROWS]
    return _Part(shown=shown, top=top, rest=rest, svg=svg, left_out=left_out, more=more)
