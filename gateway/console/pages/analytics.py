"""Analytics: what the Spark jobs answer, and how to run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from muster.gateway.console.model import commands, links
from muster.gateway.console.parts.words import card, copy_button
from muster.gateway.console.theme import View, page, text_element

if TYPE_CHECKING:
    from muster.gateway.console.console import ConsoleServer

JOBS = (
    ("consumption", "Bytes sent to each group, over days, with a price if you like."),
    ("lag", "How far groups were behind, when, and whether they caught up."),
    ("rebalances", "How many, why, and what they cost."),
    ("attribution", "Bytes without a group, and their likely owners."),
    ("placement", "Load of partitions, actors and nodes, and what other numbers would do."),
    ("failover", "How long it took to recover."),
)


def add_page(console: ConsoleServer) -> None:
    """Serve the page."""

    @page(console, links.ANALYTICS, "Analytics")
    async def draw(view: View) -> None:
        with ui.element("div").classes("head"):
            text_element("h1", "Analytics")
            text_element(
                "p",
                "Six Spark jobs answer questions about days and weeks, from the tables that the cluster writes. "
                "They run as actors on its Ray, below the priority of those that serve.",
                "sub",
            )
        with ui.element("div").classes("nodes"):
            for name, says in JOBS:
                with card(name.capitalize()):
                    text_element("p", says)
                    text_element("pre", commands.spark(name), "cli")
                    with ui.element("div").classes("row"):
                        copy_button(commands.spark(name))
        with card("All of it as a page"):
            text_element("p", "Tables and plots of the groups in one HTML file.")
            text_element("pre", commands.command("report"), "cli")
            with ui.element("div").classes("row"):
                copy_button(commands.command("report"))
