"""The frame of every page: head, navigation, main; and the view that keeps a page up to date."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from fastapi import Request
from fastapi.responses import RedirectResponse
from nicegui import Client, ui
from nicegui.elements.mixins.text_element import TextElement

from muster.gateway.console.api import Api
from muster.gateway.console.login import Session
from muster.gateway.console.model import links
from muster.gateway.console.model.links import link
from muster.gateway.console.model.snapshot import Snapshot
from muster.gateway.console.watch import Watch

if TYPE_CHECKING:
    from muster.gateway.console.console import ConsoleServer

log = logging.getLogger(__name__)

T = TypeVar("T")
FIRST_S = 4.0
"""How long a page waits for the first snapshot before it is drawn without one."""
HEAD = (
    '<script src="/static/console.js?v={version}"></script>'
    '<link rel="stylesheet" href="/static/console.css?v={version}">'
)


class Place(NamedTuple):
    """A page of the navigation."""

    path: str
    name: str
    icon: str


PLACES = (
    Place(links.OVERVIEW, "Overview", "space_dashboard"),
    Place(links.GROUPS, "Groups", "groups"),
    Place(links.TOPICS, "Topics", "list_alt"),
    Place(links.CLUSTER, "Cluster", "hub"),
    Place(links.FAULTS, "Faults", "bolt"),
    Place(links.ATTRIBUTION, "Attribution", "pie_chart"),
    Place(links.ANALYTICS, "Analytics", "insights"),
)


class View:
    """One page that one viewer has open."""

    def __init__(
        self, console: ConsoleServer, request: Request, session_id: str, session: Session | None, watch: Watch
    ) -> None:
        self.console = console
        self.query = dict(request.query_params)
        self.session = session
        self.watch = watch
        self.client: Client = ui.context.client
        self.path = request.url.path
        self._session_id = session_id
        self._updates: list[Callable[[], None]] = []
        self.client.on_connect(self._arrived)
        self.client.on_disconnect(self._gone)
        self.client.on_delete(self._gone)

    @property
    def api(self) -> Api:
        """The HTTP API, as this viewer."""
        return self.watch.api

    @property
    def now(self) -> Snapshot:
        """The newest snapshot."""
        return self.watch.now

    def on_change(self, update: Callable[[], None]) -> None:
        """Call it after each round of the poller, with the page's client as the context."""
        self._updates.append(update)

    def live(self, compute: Callable[[], T], draw: Callable[[T], None], classes: str = "stack") -> Callable[[], None]:
        """Draw what ``compute`` returns, and anew when it returns something else. Returns what does that at once."""
        shown = compute()
        inner: list[Callable[[], None]] = []
        with ui.element("div").classes(classes) as container, self._collecting(inner):
            draw(shown)

        def update(force: bool = False) -> None:
            nonlocal shown
            found = compute()
            if found == shown and not force:
                self._run(inner)
                return
            shown = found
            container.clear()
            inner.clear()
            with container, self._collecting(inner):
                draw(found)

        self.on_change(update)
        return lambda: update(force=True)

    @contextmanager
    def _collecting(self, updates: list[Callable[[], None]]) -> Iterator[None]:
        """Collect what a part wants to be called: it goes with the part."""
        outer, self._updates = self._updates, updates
        try:
            yield
        finally:
            self._updates = outer

    def _run(self, updates: list[Callable[[], None]]) -> None:
        for update in list(updates):
            try:
                update()
            except Exception:
                log.exception("a part of the page %s failed", self.path)

    def _arrived(self) -> None:
        self.watch.join(self.client.id, self._changed)
        self._changed()

    def _gone(self) -> None:
        self.watch.leave(self.client.id)

    def _changed(self) -> None:
        if not self.client.has_socket_connection:
            return
        with self.client:
            is_over = self.session is not None and self.console.sessions.with_id(self._session_id) is None
            if self.watch.is_unauthorized or is_over:
                self._gone()
                has_left = self.session is not None and is_over and not self.session.has_ended(time.monotonic())
                ui.navigate.to(link(links.LOGIN, next="" if has_left else self.here()))
                return
            self._run(self._updates)

    def here(self, **changed: Any) -> str:
        """Return the URL of the page, with other filters."""
        return link(self.path, **{**self.query, **changed})

    def remember(self, **changed: Any) -> None:
        """Put filters into the page's URL, so that it can be shared and reloaded."""
        for name, value in changed.items():
            self.query[name] = "" if value is None else str(value)
        ui.run_javascript(f"muster.replaceUrl({json.dumps(self.here())})")


def page(
    console: ConsoleServer, path: str, title: str
) -> Callable[[Callable[[View], Awaitable[None]]], Callable[[View], Awaitable[None]]]:
    """Serve the path with what the decorated function draws; viewers that have to log in are led to the login."""

    def decorate(draw: Callable[[View], Awaitable[None]]) -> Callable[[View], Awaitable[None]]:
        async def handler(request: Request) -> RedirectResponse | None:
            session_id, session, watch = console.viewer(request)
            watch.lease(ui.context.client.id)
            await watch.ready(FIRST_S)
            if watch.is_unauthorized:
                watch.leave(ui.context.client.id)
                failed = session is not None
                where = str(request.url.path) + (f"?{request.url.query}" if request.url.query else "")
                return RedirectResponse(link(links.LOGIN, next=where, ended=int(failed) or ""), status_code=303)
            view = View(console, request, session_id, session, watch)
            with frame(view, title):
                await draw(view)
            return None

        ui.page(path, title=f"{title} · Muster", response_timeout=20)(handler)
        return draw

    return decorate


def document(version: str) -> None:
    """Put the console's script and style into the page's head. Quasar gets the theme that the script found."""
    ui.add_head_html(HEAD.format(version=version))
    (quasar_page,) = ui.context.client.page_container.default_slot.children
    quasar_page.tag = "div"  # q-page would be a second <main>
    ui.run_javascript("Quasar.Dark.set(muster.isDark); muster.showPlace()")


@contextmanager
def frame(view: View, title: str) -> Iterator[None]:
    """Draw head and navigation; what is drawn inside is the main part."""
    document(view.console.version)
    with ui.element("div").classes("shell"):
        text_element("a", "Skip to the content").props('href="#main"').classes("skip")
        _top(view)
        _navigation(view)
        with ui.element("main").classes("main").props('id="main" tabindex="-1"'):
            _notices(view)
            yield


class TextTag(TextElement):
    """Element of any tag with a text, which is never taken for HTML."""

    def __init__(self, tag: str, text: str) -> None:
        super().__init__(tag=tag, text=text)


def text_element(tag: str, text: str, classes: str = "") -> TextTag:
    """Return an element with a text; never taken for HTML."""
    return TextTag(tag, text).classes(classes)


def text_line(tag: str, classes: str = "") -> Callable[[str], None]:
    """Return what draws a text in such an element, for :meth:`View.live`."""

    def draw(text: str) -> None:
        text_element(tag, text, classes)

    return draw


def _top(view: View) -> None:
    with ui.element("header").classes("top"):
        with ui.element("a").props('href="/" aria-label="Muster, overview"').classes("brand"):
            with ui.element("span").classes("mark").props('aria-hidden="true"'):
                for _ in range(4):
                    ui.element("i")
            text_element("span", "Muster", "brand-name")
        where = text_element("span", _where(view.now), "where")

        def update() -> None:
            if where.text != (text := _where(view.now)):
                where.text = text

        view.on_change(update)
        ui.element("span").classes("grow")
        search = (
            ui.input(placeholder="Find a group")
            .props('dense outlined clearable type="search" aria-label="Find a group"')
            .classes("search")
        )
        with search.add_slot("append"):
            text_element("kbd", "/").props('aria-hidden="true"')
        search.on("keydown.enter", lambda: ui.navigate.to(link(links.GROUPS, q=search.value)))
        button = ui.button(icon="contrast", color=None).props(
            'flat round dense aria-label="Theme: follow the system, light, dark"'
        )
        button.classes("tool").on("click", js_handler="() => muster.nextTheme()")
        with button:
            ui.tooltip("Theme: system, light, dark")
        if view.session is not None:
            with ui.element("form").props('method="post" action="/logout"'):
                out = (
                    ui.button(icon="logout", color=None)
                    .props('flat round dense type="submit" aria-label="Log out"')
                    .classes("tool")
                )
                with out:
                    ui.tooltip(f"Log out {view.session.user}")


def _where(now: Snapshot) -> str:
    parts = [now.cluster.bootstrap or now.gateway]
    if now.cluster.principal and now.cluster.principal != "User:ANONYMOUS":
        parts.append(now.cluster.principal.removeprefix("User:"))
    return "  ·  ".join(filter(None, parts))


def _navigation(view: View) -> None:
    current = {links.GROUP: links.GROUPS, links.TOPIC: links.TOPICS}.get(view.path, view.path)
    with ui.element("nav").classes("nav").props('aria-label="Main"'), ui.element("ul"):
        for place in PLACES:
            with ui.element("li"), ui.element("a").props(f'href="{place.path}"') as anchor:
                if place.path == current:
                    anchor.props('aria-current="page"')
                ui.icon(place.icon).props('aria-hidden="true"')
                text_element("span", place.name)


def _notices(view: View) -> None:
    def compute() -> tuple[str, str]:
        now = view.now
        if not now.at_ms:
            return "warn", "Nothing has been heard of the cluster yet."
        if now.error:
            return "bad", f"The cluster does not respond; this is what was known last. {now.error}"
        if now.groups_error:
            return "warn", f"Groups cannot be shown: {now.groups_error}"
        return "", ""

    def draw(found: tuple[str, str]) -> None:
        level, text = found
        if text:
            with ui.element("div").classes(f"notice {level}").props('role="alert"'):
                ui.icon("error" if level == "bad" else "warning").props('aria-hidden="true"')
                text_element("span", text)

    view.live(compute, draw)
