"""One topic: partitions, readers, records, and a test record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicegui import ui

from muster.gateway.client.errors import MusterError
from muster.gateway.console.api import MissingRoute
from muster.gateway.console.model import commands, links, text, topics
from muster.gateway.console.model.attribution import GROUPS, PRODUCED
from muster.gateway.console.parts.records import produce_dialog, records
from muster.gateway.console.parts.table import data_table
from muster.gateway.console.parts.words import card, copy_button, empty, missing, notice
from muster.gateway.console.theme import View, page, text_element, text_line

if TYPE_CHECKING:
    from muster.gateway.console.console import ConsoleServer

_PERIOD_S = 3.0
_PATH = "/v1/topics/describe"


def add_page(console: ConsoleServer) -> None:
    """Serve the page."""

    @page(console, links.TOPIC, "Topic")
    async def draw(view: View) -> None:
        name = view.query.get("name", "")
        ui.page_title(f"{text.shortened(name, 60)} · Muster")
        described: dict[str, Any] = {}
        failed: MusterError | None = None
        try:
            described = await view.api.get(_PATH, topic=name)
        except MusterError as error:
            failed = error
        with ui.element("div").classes("head"):
            text_element("h1", name)
            ui.element("span").classes("grow")
            copy_button(commands.describe_topic(name, view.watch.target))
            ui.button("Produce a record", icon="send", on_click=lambda: produce_dialog(view, name, described)).props(
                "outline no-caps dense"
            ).style("padding:4px 12px")
            view.live(lambda: _facts(view, name, described), text_line("span"), "sub")
        if isinstance(failed, MissingRoute):
            missing(failed.path)
            return
        if failed is not None:
            notice(failed.message, "bad", "error")
            return
        with ui.element("div").classes("grid"):
            with card("Partitions", "", "flush half", "topic-partitions", topic=name):
                partitions = data_table(
                    view, lambda: topics.partition_table(described), "Partitions", key="partition", rows_per_page=10
                )
            with card("Groups that read it", "", "flush half", "topic-groups", topic=name):
                if not described.get("groups"):
                    empty(
                        "groups",
                        "Nobody reads it",
                        "A group appears here once it has committed an offset, or a member owns a partition.",
                    )
                readers = data_table(
                    view,
                    lambda: topics.reader_table(described),
                    "Groups that read the topic",
                    key="group",
                    hrefs={"group": lambda row: links.group(row["group"])},
                    states=("state",),
                    rows_per_page=10,
                )
                left = (described.get("groups_total") or 0) - len(described.get("groups") or ())
                if left > 0:
                    text_element("p", f"{text.counted(left, 'group')} more are less far behind.", "muted small")
        if described.get("config"):
            with card("Configs that are set"):
                _config(described["config"])
        with card("Records"):
            records(view, name, described)

        async def fetch() -> None:
            try:
                found = await view.api.get(_PATH, topic=name)
            except MusterError:
                return
            described.clear()
            described.update(found)
            partitions()
            readers()

        timer = ui.timer(_PERIOD_S, fetch, immediate=False)
        view.client.on_disconnect(timer.deactivate)
        view.client.on_connect(timer.activate)


def _config(config: dict[str, Any]) -> None:
    with ui.element("dl").classes("facts"):
        for name, value in sorted(config.items()):
            text_element("dt", name, "mono")
            text_element("dd", str(value), "mono")


def _facts(view: View, name: str, described: dict[str, Any]) -> str:
    rows = described.get("partitions") or ()
    attribution = view.watch.attribution
    parts = [text.counted(len(rows), "partition")] if rows else []
    if rows:
        parts.append(text.counted(sum(row.get("messages") or 0 for row in rows), "message"))
        parts.append(text.size(sum(row.get("size_bytes") or 0 for row in rows)))
    into, out = attribution.topic_rates(PRODUCED).get(name), attribution.topic_rates(GROUPS).get(name)
    if into is not None:
        parts.append(f"in {text.rate(into)}")
    if out is not None:
        parts.append(f"out {text.rate(out)}")
    return "  ·  ".join(parts)
