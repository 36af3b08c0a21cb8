"""The page of ``muster report`` and of ``--format html``: the answers first, one screen per question, details folded.

From the top: things to do, one line per question; then, per question, its text, its answer, one plot and the worst rows
with the columns that decide; then, folded, every section of the job unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from muster.spark.jobs.job import Options
from muster.spark.render.drawing import NOBODY, drawn, names_of
from muster.spark.render.job_screens import leads_of
from muster.spark.render.page import render_page
from muster.spark.render.page_tables import PageTable, page_table
from muster.spark.render.screens import SCREENS, screen_of
from muster.spark.render.screens.consumption import NOBODY as NO_GROUP
from muster.spark.render.screens.screen import MOST, JobScreen, Level, Screen, counted
from muster.spark.render.showing import cell
from muster.spark.result import JobResult, Shown
from muster.spark.units import lasting

PAGE_ROWS = 200
"""Limit per section; other formats have more."""
LEAD_ROWS = 6
"""Limit of a screen's table."""
_EARLY = timedelta(minutes=5)
"""Time of rows below which the title says how short it is."""
_STALE = timedelta(minutes=10)
"""Age beyond which, and beyond three steps, tables are reported to have ended, by their newest row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A section on the page, folded."""

    shown: Shown
    table: PageTable
    plot: str
    """Empty if it has none, or the screen has it."""
    left_out: str
    """Text on curves or bars left out of the plot; empty if none."""
    more: str
    """Text on rows left out of the table; empty if none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobOnPage:
    name: str
    short: str
    heading: str
    screen: Screen
    more: Sequence[str]
    """Further sentences of the screen."""
    table: PageTable
    """The worst rows."""
    more_rows: str
    """Text on the number of rows beyond those; empty if none."""
    plot: str
    left_out: str
    parts: Sequence[_Part]
    empty: Sequence[str]
    """Titles of the sections without rows."""


def render_results(results: Sequence[JobResult], options: Options, damage: Sequence[str] = ()) -> str:
    """Render the page; ``damage`` says which jobs gave no answer, and why."""
    names = names_of(results)
    order = {each.job: place for place, each in enumerate(SCREENS)}
    jobs = [
        _on_page(result, options, names)
        for result in sorted(results, key=lambda result: order.get(result.job, len(order)))
    ]
    return render_page(
        "answers.html.j2",
        {},
        title=_title(jobs, options),
        verdict=_verdict(jobs, damage, results, options),
        facts=_facts(results, options),
        stale=_stale(results, options),
        jobs=jobs,
        damage=damage,
    )


def _on_page(result: JobResult, options: Options, names: Sequence[str]) -> _JobOnPage:
    job_screen = next((each for each in SCREENS if each.job == result.job), None)
    heading, screen = screen_of(result)
    plotted = None if screen.folded else _plotted(result, job_screen)
    plot, left_out = "", ""
    if plotted is not None and plotted.plot is not None:
        plot, left_out = drawn(plotted, plotted.plot, options, names, _ranked(screen))
    return _JobOnPage(
        name=result.job,
        short=job_screen.short if job_screen else result.job,
        heading=heading,
        screen=screen,
        more=screen.more[:MOST],
        table=page_table(heading, screen.columns, [] if screen.folded else screen.rows[:LEAD_ROWS]),
        more_rows="" if screen.folded else _more_rows(screen),
        plot=plot,
        left_out=left_out,
        parts=[
            _part(section, options, names, drawn_above=section is plotted)
            for section in result.sections
            if section.rows
        ],
        empty=[section.title for section in result.sections if not section.rows],
    )


def _ranked(screen: Screen) -> list[str]:
    """Name the rows of its table as a plot does."""
    if not screen.columns:
        return []
    first = screen.columns[0].name
    return [NOBODY if row[first] == NO_GROUP else cell(row[first]) for row in screen.rows]


def _more_rows(screen: Screen) -> str:
    count = len(screen.rows) if screen.count is None else screen.count
    if count <= LEAD_ROWS:
        return ""
    below = min(len(screen.rows), PAGE_ROWS)
    where = " in the tables below" if count == below else f"; the tables below have the first {below:,}"
    return f"{count - LEAD_ROWS:,} more{where}."


def _plotted(result: JobResult, job_screen: JobScreen | None) -> Shown | None:
    """Return the section whose plot is on the screen."""
    found = [section for section in result.sections if section.plot is not None and section.rows]
    wanted = [section for section in found if job_screen is not None and section.name == job_screen.plot]
    return next(iter(wanted or found), None)


def _part(shown: Shown, options: Options, names: Sequence[str], *, drawn_above: bool) -> _Part:
    has_plot = shown.plot is not None and not drawn_above
    plot, left_out = drawn(shown, shown.plot, options, names) if has_plot and shown.plot else ("", "")
    hidden = len(shown.rows) - PAGE_ROWS
    order = [column.name for column in shown.columns]
    return _Part(
        shown=shown,
        table=page_table(
            shown.title, leads_of(order), [dict(zip(order, row, strict=True)) for row in shown.rows[:PAGE_ROWS]]
        ),
        plot=plot,
        left_out=left_out,
        more=f"{hidden:,} rows" + (" and others" if shown.cut else "") if hidden > 0 else "",
    )


def _title(jobs: Sequence[_JobOnPage], options: Options) -> str:
    of = f" of cluster {options.cluster}" if options.cluster else ""
    return f"Consumer groups{of}" + (f": {jobs[0].short}" if len(jobs) == 1 else "")


def _verdict(jobs: Sequence[_JobOnPage], damage: Sequence[str], results: Sequence[JobResult], options: Options) -> str:
    levels = Counter(job.screen.level for job in jobs)
    said = []
    if levels[Level.ACT]:
        said.append(f"{counted(levels[Level.ACT], 'thing')} to act on")
    if levels[Level.LOOK]:
        said.append(f"{counted(levels[Level.LOOK], 'thing')} to look at")
    if damage:
        said.append(f"{counted(len(damage), 'question')} not answered")
    return ", ".join(said).capitalize() or f"Nothing to do{_early(results, options)}"


def _early(results: Sequence[JobResult], options: Options) -> str:
    """Say of how short a time the rows are, if too short to judge a trend; empty if a time was requested."""
    times = [min(at, options.now) for at in _times(results)]
    if not times or options.start is not None or max(times) - min(times) >= _EARLY:
        return ""
    span = max(max(times) - min(times), timedelta(seconds=options.bucket_seconds))
    return f" so far, after {lasting(span.total_seconds())}"


def _facts(results: Sequence[JobResult], options: Options) -> str:
    """Return the requested time and groups, in one line."""
    zone = ZoneInfo(options.timezone)
    times = [min(at, options.now) for at in _times(results)]  # a step may end in the future
    spans = []
    if times:
        spans.append(f"rows from {_time(min(times), zone)} to {_time(max(times), zone)}")
    bounds = [f"{word} {_time(at, zone)}" for word, at in (("from", options.start), ("to", options.end)) if at]
    if bounds:
        spans.append(f"requested {' '.join(bounds)}")
    if options.groups:
        spans.append(f"of {', '.join(sorted(options.groups))}")
    spans.append(f"as of {_time(options.now, zone)} {zone.key}")
    return " · ".join(spans)


def _stale(results: Sequence[JobResult], options: Options) -> str:
    zone = ZoneInfo(options.timezone)
    if options.stopped is not None and options.now == options.stopped:
        return f"Muster was stopped at {_time(options.stopped, zone)}: all of this is as of then."
    times = _times(results)
    if not times or options.end is not None:
        return ""
    age = options.now - max(times)
    if age <= max(_STALE, 3 * timedelta(seconds=options.bucket_seconds)):
        return ""
    newest = _time(max(times), zone)
    return (
        f"The newest row is {lasting(age.total_seconds())} old ({newest}): is the cluster up? "
        "Verdicts are as of now; --to judges an earlier time."
    )


def _times(results: Sequence[JobResult]) -> list[datetime]:
    return [at for result in results for section in result.sections for at in _moments(section) if at is not None]


def _moments(section: Shown) -> Iterable[datetime | None]:
    if section.plot is None or section.plot.kind != "lines":
        return ()
    return (section.plotted or section).values(section.plot.x[0])


def _time(moment: datetime, zone: ZoneInfo) -> str:
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S}"
