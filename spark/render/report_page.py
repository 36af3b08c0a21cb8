"""The page of ``muster report`` and of ``--format html``: the answers first, one screen per question, details folded.

From the top: what must be done, one line per question; then, per question, its text, its answer, one plot and the
worst rows with the columns that decide; then, folded, every section of the job unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from muster.spark.answer import Answer, Shown
from muster.spark.jobs.job import Options
from muster.spark.render.drawing import drawn, names_of
from muster.spark.render.page import render_page
from muster.spark.render.page_tables import PageTable, page_table
from muster.spark.render.screens import QUESTIONS
from muster.spark.render.screens.screen import MOST, Lead, Level, Question, Screen, counted
from muster.spark.units import lasting

PAGE_ROWS = 200
"""The limit per section; other formats have more."""
LEAD_ROWS = 6
"""The limit of a screen's table."""
_STALE = timedelta(minutes=10)
"""Tables whose newest row is older than this, and than three steps, are reported to have ended."""
_NARROW_COLUMNS = 6
_DECISIVE = (
    *("group", "actor", "gateway", "verdict", "topic", "partition"),
    *("lag_messages", "lag_seconds", "catch_up_seconds", "rule"),
)
"""First in a wide table, in this order, since its other end may not be visible."""
_SENTENCES = ("rule", "evidence")
"""Columns whose values may wrap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A section on the page, folded."""

    shown: Shown
    table: PageTable
    plot: str
    """Empty if it has none, or the screen has it."""
    left_out: str
    """What the plot leaves out; empty if nothing."""
    more: str
    """Which rows the table leaves out; empty if none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobOnPage:
    name: str
    short: str
    question: str
    screen: Screen
    more: Sequence[str]
    """Further sentences of the screen."""
    table: PageTable
    """The worst rows."""
    more_rows: int
    plot: str
    left_out: str
    parts: Sequence[_Part]
    empty: Sequence[str]
    """Titles of the sections without rows."""


def render_answers(answers: Sequence[Answer], options: Options, damage: Sequence[str] = ()) -> str:
    """Render the page; ``damage`` says which jobs gave no answer, and why."""
    names = names_of(answers)
    order = {question.job: place for place, question in enumerate(QUESTIONS)}
    jobs = [
        _on_page(answer, options, names)
        for answer in sorted(answers, key=lambda answer: order.get(answer.job, len(order)))
    ]
    return render_page(
        "answers.html.j2",
        {},
        title=f"Consumer groups: {jobs[0].short}" if len(jobs) == 1 else "Consumer groups",
        verdict=_verdict(jobs, damage),
        facts=_facts(answers, options),
        stale=_stale(answers, options),
        jobs=jobs,
        damage=damage,
    )


def _on_page(answer: Answer, options: Options, names: Sequence[str]) -> _JobOnPage:
    question = next((each for each in QUESTIONS if each.job == answer.job), None)
    screen = _screen(answer, question)
    plotted = _plotted(answer, question)
    plot, left_out = drawn(plotted, plotted.plot, options, names) if plotted and plotted.plot else ("", "")
    return _JobOnPage(
        name=answer.job,
        short=question.short if question else answer.job,
        question=question.text if question else answer.title,
        screen=screen,
        more=screen.more[:MOST],
        table=page_table(question.text if question else answer.title, screen.columns, screen.rows[:LEAD_ROWS]),
        more_rows=len(screen.rows) - LEAD_ROWS,
        plot=plot,
        left_out=left_out,
        parts=[
            _part(section, options, names, drawn_above=section is plotted)
            for section in answer.sections
            if section.rows
        ],
        empty=[section.title for section in answer.sections if not section.rows],
    )


def _screen(answer: Answer, question: Question | None) -> Screen:
    """The screen of a job; without a question, only its tables."""
    if question is None:
        return Screen(level=Level.INFO, answer=answer.title)
    return question.screen(answer)


def _plotted(answer: Answer, question: Question | None) -> Shown | None:
    """The section whose plot is on the screen."""
    found = [section for section in answer.sections if section.plot is not None and section.rows]
    wanted = [section for section in found if question is not None and section.name == question.plot]
    return next(iter(wanted or found), None)


def _part(shown: Shown, options: Options, names: Sequence[str], *, drawn_above: bool) -> _Part:
    has_plot = shown.plot is not None and not drawn_above
    plot, left_out = drawn(shown, shown.plot, options, names) if has_plot and shown.plot else ("", "")
    hidden = len(shown.rows) - PAGE_ROWS
    order = [column.name for column in shown.columns]
    columns = [
        Lead(name=name, label=name.replace("_", " "), is_text=name in _SENTENCES) for name in _decisive_first(order)
    ]
    return _Part(
        shown=shown,
        table=page_table(shown.title, columns, [dict(zip(order, row, strict=True)) for row in shown.rows[:PAGE_ROWS]]),
        plot=plot,
        left_out=left_out,
        more=f"{hidden:,} rows" + (" and others" if shown.cut else "") if hidden > 0 else "",
    )


def _decisive_first(names: Sequence[str]) -> Sequence[str]:
    if len(names) <= _NARROW_COLUMNS:
        return names
    first = [name for name in _DECISIVE if name in names]
    return [*first, *(name for name in names if name not in first)]


def _verdict(jobs: Sequence[_JobOnPage], damage: Sequence[str]) -> str:
    levels = Counter(job.screen.level for job in jobs)
    said = []
    if levels[Level.ACT]:
        said.append(f"{counted(levels[Level.ACT], 'thing')} to act on")
    if levels[Level.LOOK]:
        said.append(f"{counted(levels[Level.LOOK], 'thing')} to look at")
    if damage:
        said.append(f"{counted(len(damage), 'question')} not answered")
    return ", ".join(said).capitalize() or "Nothing to do"


def _facts(answers: Sequence[Answer], options: Options) -> str:
    """The requested time and groups, in one line."""
    zone = ZoneInfo(options.timezone)
    times = [min(at, options.now) for at in _times(answers)]  # a step may end in the future
    spans = []
    if times:
        spans.append(f"rows from {_time(min(times), zone)} to {_time(max(times), zone)}")
    asked = [f"{word} {_time(at, zone)}" for word, at in (("from", options.start), ("to", options.end)) if at]
    if asked:
        spans.append(f"asked {' '.join(asked)}")
    if options.groups:
        spans.append(f"of {', '.join(sorted(options.groups))}")
    spans.append(f"as of {_time(options.now, zone)} {zone.key}")
    return " · ".join(spans)


def _stale(answers: Sequence[Answer], options: Options) -> str:
    times = _times(answers)
    if not times or options.end is not None:
        return ""
    age = options.now - max(times)
    if age <= max(_STALE, 3 * timedelta(seconds=options.bucket_seconds)):
        return ""
    newest = _time(max(times), ZoneInfo(options.timezone))
    return (
        f"The newest row is {lasting(age.total_seconds())} old ({newest}): is the cluster up? "
        "Verdicts are as of now; --to asks about an earlier time."
    )


def _times(answers: Sequence[Answer]) -> list[datetime]:
    return [at for answer in answers for section in answer.sections for at in _moments(section) if at is not None]


def _moments(section: Shown) -> Iterable[datetime | None]:
    if section.plot is None or section.plot.kind != "lines":
        return ()
    return (section.plotted or section).values(section.plot.x[0])


def _time(moment: datetime, zone: ZoneInfo) -> str:
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S}"
