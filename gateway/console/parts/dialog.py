"""The dialog of an action: what it will do, the same as a command, and what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from muster.gateway.client.errors import MusterError
from muster.gateway.console.parts.words import BAD, GOOD, copy_button, notice, say
from muster.gateway.console.theme import View, text_element

Work = Callable[[], Awaitable[str]]


def dialog_named(name: str) -> ui.dialog:
    """Return a dialog that is deleted once it is closed; screen readers say its name as it opens."""
    dialog = ui.dialog()
    dialog.props["aria-label"] = name
    dialog.on("hide", dialog.delete)
    return dialog


async def attempt(work: Work, button: ui.button | None = None) -> bool:
    """Do the work, and say what it returned, or why it failed. Returns whether it was done."""
    if button is not None:
        button.props("loading")
    try:
        said = await work()
    except MusterError as error:
        say(error.message, BAD)
        return False
    finally:
        if button is not None:
            button.props(remove="loading")
    say(said, GOOD)
    return True


def action_dialog(
    view: View,
    title: str,
    says: str,
    work: Work,
    *,
    button: str,
    command: str = "",
    typed: str = "",
    is_dangerous: bool = False,
    allowed: bool = True,
    why_not: str = "",
    content: Callable[[], Any] | None = None,
) -> None:
    """Open a dialog that does the work once it is confirmed. ``typed``: a text that has to be typed for that."""
    with dialog_named(title) as dialog, ui.card():
        text_element("h2", title)
        text_element("p", says)
        if content is not None:
            content()
        if not allowed:
            notice(why_not, "warn", "lock")
        field = None
        if typed and allowed:
            field = ui.input(f"Type {typed!r} to confirm" if len(typed) < 60 else "Type the name to confirm")
            field.props("outlined dense autofocus")
        if command:
            text_element("pre", command, "cli")
        with ui.element("div").classes("row").style("justify-content:flex-end"):
            if command:
                copy_button(command)
                ui.element("span").classes("grow")
            ui.button("Cancel", on_click=dialog.close).props("flat no-caps")
            act = (
                ui.button(button)
                .props("unelevated no-caps text-color=on-accent")
                .props(f"color={'negative' if is_dangerous else 'primary'}")
            )
            act.set_enabled(allowed and not typed)

            async def run() -> None:
                if await attempt(work, act):
                    dialog.close()
                    await view.watch.refresh()

            act.on_click(run)
        if field is not None:
            confirm = field

            def check() -> None:
                act.set_enabled(confirm.value == typed)

            confirm.on_value_change(check)
    dialog.open()


NO_CHANGES = (
    "Changes are off: start the cluster with http.changes.enable=true, and log in as somebody who may make them."
)
NO_FAULTS = "Fault injection is off: start a test cluster with fault.injection.enable=true."
