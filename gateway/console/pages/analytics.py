"""Analytics: Spark's jobs, begun from here; their progress, their last results, and the report."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from nicegui import ui

from muster.gateway.client.errors import MusterError
from muster.gateway.console.model import commands, links
from muster.gateway.console.model.analytics import (
    JOBS,
    RANGES,
    REPORT,
    RUNS,
    Run,
    last_of,
    request,
    sections,
)
from muster.gateway.console.model.table import Table
from muster.gateway.console.parts.dialog import NO_CHANGES, action_dialog, attempt
from muster.gateway.console.parts.table import Href, data_table
from muster.gateway.console.parts.words import card, copy_button, empty, missing, moment, notice, state
from muster.gateway.console.theme import View, page, text_element

if TYPE_CHECKING:
    from muster.gateway.console.console import ConsoleServer


def add_page(console: ConsoleServer) -> None:
    """Serve the page, and the page of each run."""

    @page(console, links.ANALYTICS, "Analytics")
    async def draw(view: View) -> None:
        if run_id := view.query.get("run"):
            await _draw_run(view, run_id)
            return
        with ui.element("div").classes("head"):
            text_element("h1", "Analytics")
            text_element(
                "p",
                "Spark answers questions about hours, days and weeks, from the tables that the cluster writes. It runs "
                "on the cluster's Ray, one job at a time, below the priority of the actors that serve.",
                "sub",
            )
        if view.watch.lacks(RUNS):
            with card():
                missing(RUNS)
            return
        if view.watch.runs_error is not None:
            notice(view.watch.runs_error, "warn", "lock")
            return
        _Page(view).draw()


class _Page:
    def __init__(self, view: View) -> None:
        self._view = view
        self._range = view.query.get("range", "24h")
        self._group = view.query.get("group", "")

    def draw(self) -> None:
        """Draw the choice of what runs are about, and a card for each job."""
        with card("What runs are about"), ui.element("div").classes("row"):
            labels = {name: "everything" if seconds is None else f"last {name}" for name, seconds in RANGES.items()}
            chosen = ui.select(labels, value=self._range if self._range in labels else "24h", label="Time")
            chosen.props("outlined dense options-dense").bind_value_to(self, "_range")
            field = ui.input("Only this group", value=self._group).props("outlined dense clearable")
            field.on_value_change(lambda event: setattr(self, "_group", event.value or ""))
        with ui.element("div").classes("nodes"):
            for job, says in JOBS.items():
                self._draw_job(job, says)
        with card("Runs", "the last ones, newest first"):
            self._view.live(lambda: self._view.watch.runs, self._draw_runs)

    def _draw_job(self, job: str, says: str) -> None:
        command = commands.command("report", "--out", "report.html") if job == REPORT else commands.spark(job)
        with card(job.capitalize()):
            text_element("p", says)
            with ui.element("div").classes("row"):
                begin = ui.button("Run", icon="play_arrow", color=None).props("outline dense no-caps")
                begin.style("padding:4px 12px").props["aria-label"] = f"Run {job}"
                begin.on_click(lambda: self._confirm(job))
                copy_button(command)
            self._view.live(lambda: last_of(self._view.watch.runs, job), lambda run: self._draw_last(run))

    def _draw_last(self, run: Run | None) -> None:
        if run is None:
            text_element("p", "Not run yet.", "muted")
            return
        _draw_run_line(run)
        with ui.element("div").classes("row"):
            if run.is_running:
                cancel = ui.button("Cancel", color=None).props("flat dense no-caps")
                cancel.on_click(lambda: self._cancel(run, cancel))
            elif run.has_result:
                _draw_link(run)

    def _draw_runs(self, runs: tuple[Run, ...]) -> None:
        if not runs:
            empty("insights", "No run yet", "Each job says above what it answers.")
            return
        with ui.element("ul").classes("runs"):
            for run in runs:
                with ui.element("li"):
                    text_element("strong", run.job)
                    _draw_run_line(run)
                    if run.has_result:
                        _draw_link(run)

    def _confirm(self, job: str) -> None:
        about = "everything" if RANGES.get(self._range) is None else f"the last {self._range}"
        whose = f"group {self._group}" if self._group else "all groups"

        async def begin() -> str:
            body = request(job, self._range, self._group, time.time_ns() // 1_000_000)
            run = await self._view.api.post(RUNS, body)
            return f"{run['id']} has begun"

        action_dialog(
            self._view,
            f"Run {job}",
            f"Spark reads the tables of {about}, {whose}. It takes about half a minute, and starts an executor on a "
            "node with a free CPU and 512 MiB.",
            begin,
            button="Run",
            command=commands.command("report", "--out", "report.html") if job == REPORT else commands.spark(job),
            allowed=self._view.now.cluster.may_change,
            why_not=NO_CHANGES,
        )

    async def _cancel(self, run: Run, button: ui.button) -> None:
        async def cancel() -> str:
            await self._view.api.delete(f"{RUNS}/{run.id}")
            return f"{run.id} ends"

        if await attempt(cancel, button):
            await self._view.watch.refresh()


def _draw_run_line(run: Run) -> None:
    with ui.element("div").classes("row"):
        state(run.state)
        moment(run.started_ms, "ago")
        text_element("span", run.summary(time.time_ns() // 1_000_000), "muted")


def _draw_link(run: Run) -> None:
    is_report = run.job == REPORT
    href = f"{links.ANALYTICS}/report/{quote(run.id)}" if is_report else links.link(links.ANALYTICS, run=run.id)
    anchor = text_element("a", "Open the report" if is_report else "Show the result", "link")
    anchor.props["href"] = href
    if is_report:
        anchor.props["target"] = "_blank"


async def _draw_run(view: View, run_id: str) -> None:
    with ui.element("div").classes("head"):
        text_element("h1", run_id.partition("-")[2].capitalize() or "Run")
        text_element("span", run_id, "muted")
    try:
        found = await view.api.get(f"{RUNS}/{quote(run_id, safe='')}")
    except MusterError as error:
        notice(error.message, "warn", "error")
        return
    tables = sections(found)
    if not tables:
        notice(str(found.get("error") or "This run has no result."), "warn")
    for section in tables:
        note = section.note if section.is_complete else f"{section.note} The first 10,000 rows."
        with card(section.title, "", "flush", "analytics", run=run_id, section=section.name):
            if note:
                text_element("p", note, "muted pad")
            if not section.table.rows:
                empty("check", "No rows")
                continue
            names = {column.name for column in section.table.columns}
            hrefs = {name: to for name, to in _HREFS.items() if name in names}
            data_table(view, partial(_same, section.table), section.title, key="_", hrefs=hrefs, is_live=False)


def _same(table: Table) -> Table:
    return table


_HREFS: dict[str, Href] = {
    "group": lambda row: links.group(row["group"]) if row.get("group") else None,
    "topic": lambda row: links.topic(row["topic"]) if row.get("topic") else None,
}
