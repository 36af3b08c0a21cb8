"""Faults: a form, the faults in force, plans that run while the page is open."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from nicegui import ui
from nicegui.events import ValueChangeEventArguments

from muster.actors.faults.errors import InvalidFault
from muster.gateway.client.errors import MusterError
from muster.gateway.console.model import commands, faults, links
from muster.gateway.console.model.cluster import can_be_faulted
from muster.gateway.console.model.marks import FAULT, Mark, fault_text
from muster.gateway.console.model.table import Row
from muster.gateway.console.parts.chart import SECONDS, Line, time_chart
from muster.gateway.console.parts.dialog import NO_FAULTS, attempt
from muster.gateway.console.parts.table import Action, data_table
from muster.gateway.console.parts.words import card, copy_button, downloads, empty, moment, notice
from muster.gateway.console.theme import View, page, text_element

if TYPE_CHECKING:
    from muster.gateway.console.console import ConsoleServer

_LABELS = {
    "actor": "Actor",
    "group": "Group",
    "member": "Member",
    "client_id": "Client id",
    "api": "API",
    "topic": "Topic",
    "partition": "Partition",
    "gateway": "Gateway",
    "when": "Which requests",
    "phase": "Phase",
    "error": "Error",
    "delay_ms": "Delay (ms)",
    "speed": "Speed (0 to 1)",
    "expires_ms": "Ends after (ms)",
}
_WHEN = {"always": "All that match", "once": "The first", "nth": "The n-th", "probability": "Each with a probability"}
_PLAN = """name: a coordinator dies while heartbeats are slow
steps:
  - at: 0s
    action: delay
    api: Heartbeat
    delay_ms: 500
    name: slow
  - at: 5s
    action: kill
    group: my-group
  - at: 15s
    clear: slow
"""


def add_page(console: ConsoleServer) -> None:
    """Serve the page."""

    @page(console, links.FAULTS, "Faults")
    async def draw(view: View) -> None:
        with ui.element("div").classes("head"):
            text_element("h1", "Faults")
            text_element("span", "break things on purpose, and watch what happens", "muted")
            ui.element("span").classes("grow")
            copy_button(commands.list_faults(view.watch.target))
        if not view.now.cluster.fault_injection:
            notice(NO_FAULTS, "warn", "lock")
            text_element("pre", "muster up --set fault.injection.enable=true", "cli")
        elif not view.now.cluster.may_fault:
            notice("You may look at faults, and inject none: that needs ALTER on the cluster.", "warn", "lock")
        with card("In force", classes="flush"):
            _in_force(view)
        with ui.element("div").classes("grid pair"):
            with card("Inject a fault", classes="w6"):
                _form(view)
            with ui.element("div").classes("w6 stack"):
                with card("What it does", "lag, with each fault as a mark"):
                    lines = [Line("Lag, time", lambda since: view.watch.totals.points("lag_s", since))]
                    marks = view.watch.marks
                    time_chart(view, "Lag in seconds", lines, SECONDS, marks=lambda: marks.since(), span_ms=900_000)
                    view.live(lambda: list(marks.since())[-8:], _recent)
                with card("Run a plan"):
                    _plan(view)


def _recent(marks: list[Mark]) -> None:
    with (
        ui.element("div")
        .props('role="log" aria-live="polite" aria-label="What happened"')
        .classes("stack")
        .style("gap:2px")
    ):
        for mark in reversed(marks):
            with ui.element("div").classes("row"):
                moment(mark.at_ms, "clock").classes("muted small")
                ui.icon("bolt" if mark.kind == FAULT else "memory").classes(
                    "bad" if mark.kind == FAULT else "warn"
                ).props('aria-hidden="true"')
                text_element("span", mark.text)


def _in_force(view: View) -> None:
    def clear(row: Row) -> Any:
        async def work() -> str:
            await view.api.delete(f"/v1/faults/{row['id']}")
            return f"Fault {row['id']} is over."

        return _done(view, work)

    async def clear_all() -> None:
        async def work() -> str:
            await view.api.delete("/v1/faults")
            return "All faults are over."

        await _done(view, work)

    def draw(has_any: bool) -> None:
        if not has_any:
            empty(
                "bolt",
                "No fault is in force",
                "What you inject below appears here until it is cleared or ends by itself.",
            )
            return
        data_table(
            view,
            lambda: faults.table(view.now.faults),
            "Faults in force",
            key="id",
            action=Action("Clear", "close", clear),
            wraps=("what", "when"),
        )
        with ui.element("div").classes("row").style("padding:0 16px 12px"):
            ui.button("Clear all", icon="clear_all", on_click=clear_all).props("outline no-caps dense")
            copy_button(commands.clear_fault(None, view.watch.target))
            downloads("faults")

    view.live(lambda: bool(view.now.faults), draw)


async def _done(view: View, work: Any) -> None:
    if await attempt(work):
        await view.watch.refresh()


def _form(view: View) -> None:
    actions = [*faults.ACTOR_ACTIONS, *faults.REQUEST_ACTIONS]
    wanted = view.query.get("action", "")
    action = ui.select(
        {each: each for each in actions},
        value=wanted if wanted in actions else "kill" if view.query.get("actor") else "delay",
        label="Action",
    ).props("outlined dense options-dense")
    meaning = text_element("p", "", "muted small")
    area = ui.element("div").classes("form")
    texts: dict[str, Any] = {name: view.query[name] for name in _LABELS if view.query.get(name)}
    texts.setdefault("when", "always")
    texts.setdefault("phase", "before")
    texts.setdefault("delay_ms", "1000")
    texts.setdefault("speed", "0.1")
    texts.setdefault("error", "NOT_COORDINATOR")
    said = ui.element("div").classes("stack")

    def fault() -> dict[str, Any]:
        return faults.from_form(action.value, texts)

    def check() -> None:
        said.clear()
        with said:
            try:
                found = fault()
            except (InvalidFault, ValueError) as error:
                notice(str(error), "warn", "edit")
                inject.set_enabled(False)
                return
            text_element("p", f"Will inject: {fault_text(found)}; {faults.when_text(found)}.")
            text_element("pre", commands.fault(found, view.watch.target), "cli")
            inject.set_enabled(view.now.cluster.may_fault)

    def fields() -> None:
        meaning.text = faults.help_of(action.value)
        area.clear()
        with area:
            for name in faults.fields_of(action.value):
                _field(view, name, texts, check, fields)

    async def run() -> None:
        async def work() -> str:
            done = await view.api.post("/v1/faults", fault())
            late = (
                f" Gateways that have not confirmed it: {', '.join(map(str, done['late_gateways']))}."
                if done.get("late_gateways")
                else ""
            )
            return f"Fault {done['id']} is in force.{late}"

        if await attempt(work, inject):
            await view.watch.refresh()

    with ui.element("div").classes("row"):
        inject = ui.button("Inject", icon="bolt", on_click=run).props(
            "unelevated no-caps text-color=on-accent color=negative"
        )
        copy_button(lambda: commands.fault(fault(), view.watch.target))

    def chosen() -> None:
        fields()
        check()

    action.on_value_change(chosen)
    fields()
    check()


def _field(view: View, name: str, texts: dict[str, Any], check: Any, again: Any) -> None:
    label, value = _LABELS[name], texts.get(name, "")
    choices: dict[str, list[str] | dict[str, str]] = {
        "actor": [actor.name for actor in view.now.actors if can_be_faulted(actor.name)],
        "api": list(faults.APIS),
        "error": list(faults.ERRORS),
        "when": _WHEN,
        "phase": {"before": "before it is served", "after": "after it is served"},
    }
    options = choices.get(name)
    field: Any
    if options is None:
        field = ui.input(label, value=value)
        field.props("outlined dense")
    else:
        field = ui.select(
            options if not value or value in options else [*options, value],
            value=value or None,
            label=label,
            with_input=name not in ("when", "phase"),
            clearable=name in ("actor", "api"),
            new_value_mode="add-unique" if name == "error" else None,
        )
        field.props("outlined dense options-dense")
    with field:
        ui.tooltip(faults.help_of(name)).props("max-width=320px")

    def changed() -> None:
        texts[name] = field.value
        if name == "when":
            again()
        check()

    field.on_value_change(changed)
    if name == "when" and value in ("nth", "probability"):
        for part, text in (("nth", "N"),) if value == "nth" else (("probability", "Probability"), ("seed", "Seed")):
            texts.setdefault(part, {"nth": "1", "probability": "0.1", "seed": "1"}[part])
            number = ui.input(text, value=texts[part]).props("outlined dense")

            def typed(event: ValueChangeEventArguments[Any], part: str = part) -> None:
                texts[part] = event.value
                check()

            number.on_value_change(typed)


def _plan(view: View) -> None:
    plan = ui.textarea(value=_PLAN).props(
        'outlined dense autogrow input-class="mono" aria-label="Plan, in YAML or JSON" spellcheck="false"'
    )
    plan.style("width:100%")
    log = (
        ui.element("div")
        .classes("stack")
        .style("gap:2px")
        .props('role="log" aria-live="polite" aria-label="Steps of the plan"')
    )
    running: asyncio.Task[None] | None = None

    async def check() -> None:
        async def work() -> str:
            found = await view.api.check_plan(plan.value)
            return f"The plan can be run: {len(found['steps'])} steps, {found['steps'][-1]['at_ms'] / 1000:g} s."

        await attempt(work)

    def line(text: str, icon: str = "chevron_right", level: str = "") -> None:
        with log, ui.element("div").classes(f"row {level}").style("flex-wrap:nowrap;align-items:flex-start"):
            ui.icon(icon).props('aria-hidden="true"')
            text_element("span", text)

    async def steps() -> None:
        try:
            found = await view.api.check_plan(plan.value)
            total = len(found["steps"])
            async with view.api.lines("POST", "/v1/faults/plan", plan.value) as lines:
                number = 0
                async for each in lines:
                    if not each:
                        continue
                    step, number = json.loads(each), number + 1
                    failed = step.get("error")
                    said = f"{number} of {total}, at {step['at_ms'] / 1000:g} s: {step['does']}"
                    line(
                        f"{said}: {failed}" if failed else said, "error" if failed else "check", "bad" if failed else ""
                    )
            line("The plan is over.", "flag")
        except MusterError as error:
            line(error.message, "error", "bad")
        except asyncio.CancelledError:
            line("The plan was stopped; its faults are cleared.", "stop")
            raise
        finally:
            start.set_enabled(True)
            stop.set_enabled(False)

    def run() -> None:
        nonlocal running
        log.clear()
        line("The plan runs for as long as this page is open.", "play_arrow")
        start.set_enabled(False)
        stop.set_enabled(True)
        running = asyncio.get_running_loop().create_task(steps())

    def end() -> None:
        if running is not None:
            running.cancel()

    with ui.element("div").classes("row"):
        start = ui.button("Run", icon="play_arrow", on_click=run).props(
            "unelevated no-caps text-color=on-accent color=negative"
        )
        stop = ui.button("Stop", icon="stop", on_click=end).props("outline no-caps")
        ui.button("Check", icon="rule", on_click=check).props("flat no-caps")
        copy_button(commands.run_plan(view.watch.target))
    start.set_enabled(view.now.cluster.may_fault)
    stop.set_enabled(False)
    view.client.on_delete(end)
