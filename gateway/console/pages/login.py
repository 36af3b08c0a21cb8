"""The login: user and password, or a token. The browser posts the form; credentials are never in a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Request
from nicegui import ui

from muster.gateway.console.model import links
from muster.gateway.console.model.links import is_local
from muster.gateway.console.parts.words import card, notice
from muster.gateway.console.theme import document, text_element

if TYPE_CHECKING:
    from muster.gateway.console.console import ConsoleServer

_FAILED = {
    "invalid": "The gateway does not take these credentials.",
    "silent": "No gateway responds, so nobody can say whether these credentials are good. Try again.",
}


def add_page(console: ConsoleServer) -> None:
    """Serve the page."""

    async def draw(request: Request) -> None:
        document(console.version)
        where = request.query_params.get("next", "/")
        with ui.element("main").classes("main").props('id="main"'), ui.element("div").classes("login"), card():
            with ui.element("div").classes("brand"):
                with ui.element("span").classes("mark").props('aria-hidden="true"'):
                    for _ in range(4):
                        ui.element("i")
                text_element("h1", "Log in to Muster")
            if failed := _FAILED.get(request.query_params.get("failed", "")):
                with ui.element("div").props('role="alert"'):
                    notice(failed, "bad", "error")
            elif request.query_params.get("ended"):
                notice("Your session is over, or your credentials are no longer good.", "", "schedule")
            with ui.element("form").classes("stack").props('method="post" action="/login"'):
                hidden = ui.element("input").props('type="hidden" name="next"')
                hidden.props["value"] = where if is_local(where) else "/"
                ui.input("User").props('outlined name="user" autocomplete="username" autofocus')
                ui.input("Password", password=True).props('outlined name="password" autocomplete="current-password"')
                text_element("p", "or", "muted").style("text-align:center")
                ui.input("Bearer token", password=True).props('outlined name="token" autocomplete="off"')
                ui.button("Log in").props('unelevated no-caps text-color=on-accent type="submit"')
            text_element(
                "p",
                "As for Kafka clients: a SASL user, or a token of muster token add. The gateway decides what you may "
                "see and do; the console keeps the credentials in its memory only.",
                "muted small",
            )

    ui.page(links.LOGIN, title="Log in · Muster")(draw)
