"""Small parts: states, times, headings, commands to copy, empty views."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nicegui import ui

from muster.gateway.console.model.links import link
from muster.gateway.console.theme import text_element

GOOD, WARN, BAD, INFO = "ok", "warn", "bad", "info"
STATES: dict[str, tuple[str, str]] = {
    "Stable": (GOOD, "check_circle"),
    "Empty": (INFO, "radio_button_unchecked"),
    "Dead": (BAD, "cancel"),
    "PreparingRebalance": (WARN, "sync"),
    "CompletingRebalance": (WARN, "sync"),
    "Assigning": (WARN, "sync"),
    "Reconciling": (WARN, "sync"),
    "alive": (GOOD, "check_circle"),
    "starting": (WARN, "hourglass_top"),
    "restarting": (BAD, "restart_alt"),
    "failed": (BAD, "error"),
    "leaving": (WARN, "moving"),
    "disconnected": (BAD, "link_off"),
    "down": (BAD, "cancel"),
    "stopped": (INFO, "stop_circle"),
    "draining": (WARN, "moving"),
    "drained": (INFO, "block"),
    "dead": (BAD, "cancel"),
    "not placed": (WARN, "help"),
    "running": (WARN, "hourglass_top"),
    "succeeded": (GOOD, "check_circle"),
    "cancelled": (INFO, "block"),
}
"""Colour and icon of each state; the text is there as well."""


def say(text: str, level: str = INFO) -> None:
    """Show a sentence at the foot of the page; one about a failure stays until it is closed."""
    ui.notify(
        text,
        color="surface",
        text_color=level,
        icon={GOOD: "check_circle", BAD: "error"}.get(level, "info"),
        position="bottom",
        multi_line=True,
        timeout=0 if level == BAD else 6_000,
        close_button="Close",
    )


def look_of(state: str) -> tuple[str, str]:
    """Return the class and the icon of a state."""
    return STATES.get(state, (INFO, "help"))


def state(name: str) -> None:
    """Draw a state: icon and text."""
    level, icon = look_of(name)
    with ui.element("span").classes(f"state {level}"):
        ui.icon(icon).props('aria-hidden="true"')
        text_element("span", name)


def moment(ms: int | None, mode: str = "full") -> ui.element:
    """Draw a time in the viewer's zone; ``mode``: full, clock or ago."""
    return ui.element("muster-time").props(f'ms="{ms or 0}" mode="{mode}"')


@contextmanager
def card(title: str = "", note: str = "", classes: str = "", table: str = "", **query: object) -> Iterator[ui.element]:
    """Draw a card with a heading; what is drawn inside is its content.

    ``table``: name of the downloads beside the heading, with ``query``.
    """
    with ui.element("section").classes(f"card {classes}") as section:
        if title:
            section.props["aria-label"] = title
            with ui.element("div").classes("cardhead"):
                text_element("h2", title)
                if note:
                    text_element("span", note, "note")
                if table:
                    downloads(table, **query)
        yield section


def copy_button(command: Callable[[], str] | str, label: str = "Copy as CLI", *, is_icon: bool = False) -> None:
    """Draw a button that copies a command; the command is its tooltip."""

    def copy() -> None:
        text = command() if callable(command) else command
        ui.run_javascript(f"muster.copy({json.dumps(text)})")
        say(f"Copied: {text}")

    button = ui.button("" if is_icon else label, icon="terminal", on_click=copy, color=None).props("flat dense no-caps")
    button.classes("tool")
    if is_icon:
        button.props["aria-label"] = label
    if not callable(command):
        with button:
            ui.tooltip(command)


def downloads(name: str, **query: object) -> None:
    """Draw links to a table as CSV and as JSON."""
    with ui.element("span").classes("downloads"):
        for suffix in ("csv", "json"):
            anchor = text_element("a", suffix.upper())
            anchor.props["href"] = link(f"/download/{name}.{suffix}", **query)
            anchor.props["download"] = f"{name}.{suffix}"
            anchor.props["aria-label"] = f"Download as {suffix.upper()}"


def empty(icon: str, title: str, text: str = "", command: str = "") -> None:
    """Draw what is there when there is nothing, and how to change that."""
    with ui.element("div").classes("empty"):
        ui.icon(icon).props('aria-hidden="true"')
        text_element("div", title, "title")
        if text:
            text_element("div", text)
        if command:
            text_element("code", command)


def notice(text: str, level: str = "", icon: str = "info") -> None:
    """Draw a sentence that stands out."""
    with ui.element("div").classes(f"notice {level}"):
        ui.icon(icon).props('aria-hidden="true"')
        text_element("span", text)


def facts(pairs: list[tuple[str, str]]) -> None:
    """Draw names and values below each other."""
    with ui.element("dl").classes("facts"):
        for name, value in pairs:
            text_element("dt", name)
            text_element("dd", value)


def missing(path: str) -> None:
    """Draw that the gateways do not have a route."""
    empty(
        "update",
        "Not served by this cluster",
        f"Its gateways do not serve {path}.",
    )
