"""The list of topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nicegui import ui

from muster.gateway.client.errors import MusterError
from muster.gateway.console.api import MissingRoute
from muster.gateway.console.model import commands, links, text, topics
from muster.gateway.console.model.attribution import GROUPS, PRODUCED
from muster.gateway.console.model.table import Table
from muster.gateway.console.parts.table import data_table
from muster.gateway.console.parts.words import card, copy_button, downloads, empty, missing, notice
from muster.gateway.console.theme import View, page, text_element

if TYPE_CHECKING:
    from muster.gateway.console.console import ConsoleServer

_PERIOD_S = 5.0


def add_page(console: ConsoleServer) -> None:
    """Serve the page."""

    @page(console, links.TOPICS, "Topics")
    async def draw(view: View) -> None:
        found: Sequence[dict[str, Any]] = ()
        with ui.element("div").classes("head"):
            text_element("h1", "Topics")
            count = text_element("span", "", "muted")
            ui.element("span").classes("grow")
            copy_button(commands.topics(view.watch.target))
        try:
            response = await view.api.topics()
        except MissingRoute as error:
            missing(error.path)
            return
        except MusterError as error:
            notice(error.message, "bad", "error")
            return
        found = response["topics"]
        query, with_internal = view.query.get("q", ""), view.query.get("internal") == "1"

        def table() -> Table:
            attribution = view.watch.attribution
            rates = attribution.topic_rates(PRODUCED), attribution.topic_rates(GROUPS)
            return topics.topic_table(found, *rates, query=query, with_internal=with_internal)

        with card(classes="flush") as section:
            with ui.element("div").classes("cardhead").style("padding-bottom:6px"):
                field = ui.input(placeholder="Filter by name", value=query).classes("page-search")
                field.props('outlined dense clearable debounce="200" type="search" aria-label="Filter topics by name"')
                internal = ui.switch("Internal topics", value=with_internal)
                refresh = view.live(
                    lambda: {"q": query, "internal": "1" if with_internal else ""},
                    lambda filters: downloads("topics", **filters),
                    "downloads",
                )
            if not any(not each.get("internal") for each in found):
                empty(
                    "list_alt",
                    "No topics yet",
                    "A topic appears here when somebody creates it, or produces to it.",
                    "muster topics create flights --partitions 6 "
                    f"--bootstrap-server {view.now.cluster.bootstrap or 'HOST:PORT'}",
                )
            update = data_table(
                view,
                table,
                "Topics",
                key="topic",
                hrefs={"topic": lambda row: links.topic(row["topic"])},
                rows_per_page=50,
            )
        assert section is not None

        def say() -> None:
            count.text = text.counted(len(table().rows), "topic") + (
                ", incomplete: a log does not respond" if response.get("partial") else ""
            )

        def changed() -> None:
            nonlocal query, with_internal
            query, with_internal = field.value or "", bool(internal.value)
            view.remember(q=query, internal="1" if with_internal else "")
            update()
            refresh()
            say()

        async def fetch() -> None:
            nonlocal found, response
            try:
                response = await view.api.topics()
            except MusterError:
                return
            found = response["topics"]
            update()
            say()

        say()
        field.on_value_change(changed)
        internal.on_value_change(changed)
        timer = ui.timer(_PERIOD_S, fetch, immediate=False)
        view.client.on_disconnect(timer.deactivate)
        view.client.on_connect(timer.activate)
