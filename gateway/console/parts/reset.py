"""The dialog that moves a group's offsets: where to, what that does, and how to undo it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from nicegui import ui

from muster.gateway.client.errors import MusterError
from muster.gateway.console.model import commands, text
from muster.gateway.console.model.reset import KINDS, plan_table, request, summary
from muster.gateway.console.parts.dialog import NO_CHANGES, attempt, dialog_named
from muster.gateway.console.parts.table import data_table
from muster.gateway.console.parts.words import copy_button, notice
from muster.gateway.console.theme import View, text_element

_PATH = "/v1/groups/reset"


def reset_dialog(view: View, group: str, choices: Mapping[str, list[int]]) -> None:
    """Open the dialog. ``choices``: partitions with a commit, by topic."""
    title = f"Reset the offsets of {text.shortened(group)}"
    with dialog_named(title).props("persistent") as dialog, ui.card().style("width:880px"):
        text_element("h2", title)
        if not view.now.cluster.may_change:
            notice(f"You can look at what a reset would do. {NO_CHANGES}", "warn", "lock")
        with ui.element("div").classes("form"):
            kind = ui.select(dict(KINDS), value="earliest", label="Move to").props("outlined dense options-dense")
            number = ui.number("Number", value=0, format="%d").props("outlined dense")
            number.bind_visibility_from(kind, "value", lambda value: value in ("offset", "shift"))
            time = ui.input("Time").props('outlined dense type="datetime-local" step="1" stack-label')
            time.bind_visibility_from(kind, "value", lambda value: value == "time_ms")
            names = {"": "All topics with a commit", **{topic: topic for topic in choices}}
            topic = ui.select(names, value="", label="Topic").props("outlined dense options-dense")
            partitions = (
                ui.input("Partitions", placeholder="all")
                .props("outlined dense stack-label")
                .props('hint="such as 0,1"')
            )
            partitions.bind_visibility_from(topic, "value", bool)
        area = ui.element("div").classes("stack")
        with ui.element("div").classes("row").style("justify-content:flex-end"):
            copy_button(lambda: command())
            ui.element("span").classes("grow")
            ui.button("Close", on_click=dialog.close).props("flat no-caps")
            preview = ui.button("Preview").props("outline no-caps")
    zone_min = 0

    async def wanted() -> dict[str, Any]:
        nonlocal zone_min
        time_ms = None
        if kind.value == "time_ms" and time.value:
            zone_min = await ui.run_javascript(f"new Date({time.value!r}).getTimezoneOffset()", timeout=5)
            local = datetime.fromisoformat(time.value).replace(tzinfo=UTC)
            time_ms = round(local.timestamp() * 1000) + zone_min * 60_000
        return request(group, kind.value, number.value, time_ms, topic.value, partitions.value or "")

    last: dict[str, Any] = {}

    def command() -> str:
        body = last or request(group, kind.value, number.value, None, topic.value, partitions.value or "")
        return commands.reset(group, body["to"], body["topics"], view.watch.target, _iso)

    async def show() -> None:
        nonlocal last
        try:
            last = await wanted()
            found = await view.api.post(f"{_PATH}/plan", last)
        except (MusterError, ValueError) as error:
            area.clear()
            with area:
                notice(str(error), "bad", "error")
            return
        area.clear()
        with area:
            _show(found)

    def _show(found: dict[str, Any]) -> None:
        notice(summary(found), "warn" if found.get("refused") else "", "info")
        data_table(view, lambda: plan_table(found), "Preview", key="_", rows_per_page=10, is_live=False)
        text_element("pre", command(), "cli")
        if found.get("refused") or not view.now.cluster.may_change or not found.get("changes"):
            return
        confirm = ui.input("Type the group's name to confirm").props("outlined dense")
        act = ui.button("Reset the offsets").props("unelevated no-caps text-color=on-accent color=negative")
        act.set_enabled(False)
        confirm.on_value_change(lambda: act.set_enabled(confirm.value == group))

        async def execute() -> None:
            done: dict[str, Any] = {}

            async def work() -> str:
                done.update(await view.api.post(_PATH, last))
                return summary(done)

            if await attempt(work, act):
                area.clear()
                with area:
                    _undo(done)
                await view.watch.refresh()

        act.on_click(execute)

    def _undo(done: dict[str, Any]) -> None:
        notice(summary(done), "ok", "check_circle")
        button = ui.button("Undo", icon="undo").props("outline no-caps")

        async def undo() -> None:
            async def work() -> str:
                body = {"group": group, "to": {"undo": True}, "topics": None}
                return summary(await view.api.post(_PATH, body))

            if await attempt(work, button):
                area.clear()
                await view.watch.refresh()

        button.on_click(undo)

    for field in (kind, number, time, topic, partitions):
        field.on_value_change(area.clear)
    preview.on_click(show)
    dialog.open()


def _iso(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
