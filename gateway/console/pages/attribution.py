"""Attribution: bytes by group, topic and evidence; what has no group, and why; commits against bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from muster.gateway.console.model import audit, commands, links, text
from muster.gateway.console.model.attribution import EVIDENCE_TEXTS, GROUPS, REASONS
from muster.gateway.console.parts.table import data_table
from muster.gateway.console.parts.words import card, copy_button, missing
from muster.gateway.console.theme import View, page, text_element, text_line

if TYPE_CHECKING:
    from muster.gateway.console.console import ConsoleServer


def add_page(console: ConsoleServer) -> None:
    """Serve the page."""

    @page(console, links.ATTRIBUTION, "Attribution")
    async def draw(view: View) -> None:
        watch = view.watch
        with ui.element("div").classes("head"):
            text_element("h1", "Attribution")
            text_element("span", "which group the bytes were sent to, and how that is known", "muted")
            ui.element("span").classes("grow")
            copy_button(commands.audit())
        if watch.lacks("/v1/attribution"):
            with card():
                missing("/v1/attribution")
        else:
            with card():
                view.live(lambda: _stats(view), _draw_stats, "stats")
            with card(
                "Bytes by group, topic and evidence",
                "since each gateway started, as far as this console saw it",
                "flush",
                "attribution",
            ):
                data_table(
                    view,
                    watch.attribution.by_group,
                    "Bytes by group, topic and evidence",
                    key="_",
                    hrefs={
                        "group": lambda row: links.group(row["group"]),
                        "topic": lambda row: links.topic(row["topic"]),
                    },
                )
            with card(
                "Bytes by principal and topic",
                "whose credentials they were fetched with",
                "flush",
                "attribution-principals",
            ):
                data_table(
                    view,
                    watch.attribution.by_principal,
                    "Bytes by principal and topic",
                    key="_",
                    hrefs={"topic": lambda row: links.topic(row["topic"])},
                )
            with card("Without a group, and why", "", "flush", "attribution-reasons"):
                data_table(
                    view,
                    watch.attribution.without_group,
                    "Bytes without a group",
                    key="_",
                    wraps=("meaning",),
                    nothing="Every byte has a group",
                    hrefs={"topic": lambda row: links.topic(row["topic"])},
                )
            with card("What the evidence means"), ui.element("dl").classes("facts"):
                for name, meaning in EVIDENCE_TEXTS.items():
                    text_element("dt", name)
                    text_element("dd", meaning)
        with card("Audit: commits against bytes", "", "flush", "audit"):
            view.live(lambda: audit.summary(watch.audit), text_line("p", "muted"), "pad")
            data_table(
                view,
                lambda: audit.audit_table(watch.audit),
                "Audit of attribution",
                key="_",
                wraps=("why",),
                hrefs={"group": lambda row: links.group(row["group"]), "topic": lambda row: links.topic(row["topic"])},
            )


def _stats(view: View) -> tuple[tuple[str, str], ...]:
    attribution = view.watch.attribution
    sent = sum(found.bytes for found in attribution.sums(GROUPS).values())
    without = sum(found.bytes for reason, found in attribution.sums(REASONS).items() if reason != "internal")
    return (
        ("Sent to groups", text.size(sent)),
        ("Without a group", text.size(without)),
        ("Share without a group", text.share(attribution.unattributed_share())),
        ("Now", text.rate(attribution.rate_of(GROUPS))),
        *((("Hidden from you", text.size(attribution.hidden_bytes)),) if attribution.hidden_bytes else ()),
    )


def _draw_stats(found: tuple[tuple[str, str], ...]) -> None:
    for name, value in found:
        with ui.element("div").classes("stat"):
            text_element("div", value, "value")
            text_element("div", name, "name")
