"""Records of a topic: a page at a time, from an offset, a time, the beginning or the end; and a test record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nicegui import ui

from muster.gateway.client.errors import MusterError
from muster.gateway.console.model import commands, topics
from muster.gateway.console.model.table import Row
from muster.gateway.console.model.topics import FORMATS, position, record_table, shown
from muster.gateway.console.parts.dialog import NO_CHANGES, attempt, dialog_named
from muster.gateway.console.parts.table import data_table
from muster.gateway.console.parts.words import copy_button, downloads, empty, missing, moment, notice
from muster.gateway.console.theme import View, text_element

_PATH = "/v1/topics/records"
_FROM = {"latest": "The newest", "earliest": "The oldest", "offset": "An offset", "time_ms": "A time"}
_LIMITS = [10, 50, 200, 500]


def records(view: View, topic: str, described: Mapping[str, Any]) -> None:
    """Draw the filters, and the records that they choose."""
    if view.watch.lacks(_PATH):
        missing(_PATH)
        return
    partitions = sorted(row["partition"] for row in described.get("partitions") or ())
    if not partitions:
        return
    query = view.query
    wanted = int(query["partition"]) if query.get("partition", "").isdigit() else partitions[0]
    with ui.element("div").classes("form"):
        partition = ui.select(partitions, value=wanted if wanted in partitions else partitions[0], label="Partition")
        start = ui.select(_FROM, value=query.get("from") if query.get("from") in _FROM else "latest", label="From")
        offset = ui.number("Offset", value=_number(query.get("offset")), format="%d", min=0)
        offset.bind_visibility_from(start, "value", lambda value: value == "offset")
        time = ui.input("Time").props('type="datetime-local" step="1" stack-label')
        time.bind_visibility_from(start, "value", lambda value: value == "time_ms")
        limit = ui.select(_LIMITS, value=50, label="Records")
        form = ui.select(
            list(FORMATS), value=query.get("format") if query.get("format") in FORMATS else "auto", label="Show as"
        )
        for field in (partition, start, offset, time, limit, form):
            field.props("outlined dense options-dense")
        with ui.element("div").classes("row"):
            show = ui.button("Show", icon="search").props("unelevated no-caps text-color=on-accent")
    area = ui.element("div").classes("stack")
    current: dict[str, Any] = {}

    async def parameters() -> dict[str, Any]:
        chosen: dict[str, Any] = {"topic": topic, "partition": partition.value, "limit": limit.value}
        if start.value == "offset":
            chosen["offset"] = int(offset.value or 0)
        elif start.value == "time_ms" and time.value:
            chosen["time_ms"] = await ui.run_javascript(f"new Date({time.value!r}).getTime()", timeout=5)
        else:
            chosen["from"] = start.value if start.value != "time_ms" else "latest"
        return chosen

    async def fetch(chosen: Mapping[str, Any]) -> None:
        try:
            found = await view.api.get(_PATH, **chosen)
        except MusterError as error:
            area.clear()
            with area:
                notice(error.message, "bad", "error")
            return
        current.clear()
        current.update(found)
        draw(chosen)

    def draw(chosen: Mapping[str, Any]) -> None:
        area.clear()
        with area:
            with ui.element("div").classes("row"):
                text_element("span", position(current), "muted small")
                ui.element("span").classes("grow")
                copy_button(
                    commands.tail(topic, partition.value, start.value == "earliest", limit.value, view.watch.target)
                )
                downloads("records", format=form.value, **chosen)
            if not current.get("records"):
                empty("inbox", "No records here", "Choose another partition or an earlier place, or produce a record.")
                return
            data_table(
                view,
                lambda: record_table(current["records"], form.value),
                "Records",
                key="offset",
                on_row=lambda row: _record(row, current["records"], form.value),
                rows_per_page=50,
                is_live=False,
            )
            text_element("p", "An offset opens the whole record.", "muted small")
            with ui.element("div").classes("row"):
                first, last = current["records"][0]["offset"], current.get("next_offset")
                if first > (current.get("start_offset") or 0):
                    older = max(first - limit.value, current.get("start_offset") or 0)
                    ui.button("Older", icon="chevron_left", on_click=lambda: go(older)).props("outline dense no-caps")
                if last is not None and last < (current.get("end_offset") or 0):
                    ui.button("Newer", icon="chevron_right", on_click=lambda: go(last)).props("outline dense no-caps")

    async def go(to: int) -> None:
        start.value, offset.value = "offset", to
        await begin()

    async def begin() -> None:
        view.remember(
            partition=partition.value,
            **{"from": start.value},
            offset=int(offset.value or 0) if start.value == "offset" else "",
            format=form.value if form.value != "auto" else "",
        )
        await fetch(await parameters())

    show.on_click(begin)
    form.on_value_change(lambda: draw({"topic": topic, "partition": partition.value}) if current else None)
    ui.timer(0.05, begin, once=True)


def _number(value: str | None) -> int:
    return int(value) if value and value.isascii() and value.isdigit() and len(value) < 19 else 0


def _record(row: Row, found: list[dict[str, Any]], form: str) -> None:
    record = next((each for each in found if each["offset"] == row["offset"]), None)
    if record is None:
        return
    title = f"Offset {record['offset']}"
    with dialog_named(title) as dialog, ui.card().style("width:820px"):
        text_element("h2", title)
        with ui.element("div").classes("row muted small"):
            moment(record.get("timestamp_ms"))
        for name, value in (("Key", record.get("key")), ("Value", record.get("value"))):
            _value(name, value, form)
        for name, value in record.get("headers") or ():
            _value(f"Header {name}", value, form)
        with ui.element("div").classes("row").style("justify-content:flex-end"):
            ui.button("Close", on_click=dialog.close).props("flat no-caps")
    dialog.open()


def _value(name: str, value: Mapping[str, Any] | None, form: str) -> None:
    found = shown(value, form)
    text_element("h3", f"{name} ({found.kind}{', the beginning' if found.is_cut else ''})")
    text_element("pre", found.text, "json").props('tabindex="0"')


def produce_dialog(view: View, topic: str, described: Mapping[str, Any]) -> None:
    """Open the dialog that produces one record."""
    partitions = {None: "by the key"} | {
        row["partition"]: str(row["partition"]) for row in described.get("partitions") or ()
    }
    title = f"Produce a record to {topics.preview({'text': topic})}"
    with dialog_named(title) as dialog, ui.card():
        text_element("h2", title)
        allowed = view.now.cluster.may_change
        if not allowed:
            notice(NO_CHANGES, "warn", "lock")
        key = ui.input("Key", placeholder="none").props("outlined dense stack-label")
        value = ui.textarea("Value").props('outlined dense autogrow stack-label input-class="mono"')
        headers = ui.textarea("Headers", placeholder="name=value, one on each line").props(
            "outlined dense autogrow stack-label"
        )
        partition = ui.select(partitions, value=None, label="Partition").props("outlined dense options-dense")

        def named() -> list[tuple[str, str]]:
            pairs = [line.partition("=") for line in (headers.value or "").splitlines() if line.strip()]
            return [(name.strip(), text) for name, _, text in pairs]

        def command() -> str:
            return commands.produce(
                topic, value.value or "", key.value or None, partition.value, named(), view.watch.target
            )

        async def work() -> str:
            body = {
                "topic": topic,
                "partition": partition.value,
                "key": {"text": key.value} if key.value else None,
                "value": {"text": value.value or ""},
                "headers": [[name, {"text": text}] for name, text in named()],
            }
            done = await view.api.post(_PATH, body)
            return f"The record is at offset {done['offset']} of partition {done['partition']}."

        with ui.element("div").classes("row").style("justify-content:flex-end"):
            copy_button(command)
            ui.element("span").classes("grow")
            ui.button("Cancel", on_click=dialog.close).props("flat no-caps")
            act = ui.button("Produce").props("unelevated no-caps text-color=on-accent")
            act.set_enabled(allowed)

        async def run() -> None:
            if await attempt(work, act):
                dialog.close()

        act.on_click(run)
    dialog.open()
