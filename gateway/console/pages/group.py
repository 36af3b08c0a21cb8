"""One group: members, partitions, rebalances above the lag on one time axis; reset and evict."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from nicegui import ui

from muster.gateway.client.errors import MusterError
from muster.gateway.console.api import ApiError, MissingRoute
from muster.gateway.console.model import commands, links, members, text
from muster.gateway.console.model.snapshot import GroupRow
from muster.gateway.console.model.table import Row
from muster.gateway.console.parts.dialog import NO_CHANGES, action_dialog
from muster.gateway.console.parts.history import history
from muster.gateway.console.parts.reset import reset_dialog
from muster.gateway.console.parts.table import Action, data_table
from muster.gateway.console.parts.words import card, copy_button, empty, state
from muster.gateway.console.theme import View, page, text_element, text_line

if TYPE_CHECKING:
    from muster.gateway.console.console import ConsoleServer

_PERIOD_ROUNDS = 2


class _Group:
    """One group as the API describes it, fetched while the page is open."""

    def __init__(self, view: View, name: str) -> None:
        self.view = view
        self.name = name
        self.lag: dict[str, Any] | None = None
        self.described: dict[str, Any] | None = None
        self.error = ""
        self.lacks_describe = False

    async def fetch(self) -> None:
        """Fetch it anew; what fails keeps its last value."""
        api = self.view.api
        try:
            self.lag = await api.get("/v1/groups/lag", group=self.name)
            self.error = ""
        except MusterError as error:
            self.error = error.message
            if isinstance(error, ApiError) and error.status == 404:
                self.lag = None
        try:
            self.described = await api.get("/v1/groups/describe", group=self.name)
        except MissingRoute:
            self.lacks_describe = True
        except MusterError:
            pass


def add_page(console: ConsoleServer) -> None:
    """Serve the page."""

    @page(console, links.GROUP, "Group")
    async def draw(view: View) -> None:
        name = view.query.get("name", "")
        ui.page_title(f"{text.shortened(name, 60)} · Muster")
        group = _Group(view, name)
        await group.fetch()
        with contextlib.suppress(MusterError):
            await view.watch.fetch_history(name, 200)
        _head(view, group)
        if group.lag is None and group.described is None:
            empty(
                "search_off",
                "There is no such group",
                group.error or "It may have been deleted, or its last offset has expired.",
            )
            return
        with card("Rebalances and lag", "cause above, effect below"):
            history(view, name)
        with ui.element("div").classes("stack").style("gap:14px"):
            _members(view, group)
            _partitions(view, group)
        _keep_fetching(view, group)


def _keep_fetching(view: View, group: _Group) -> None:
    is_busy = False

    async def fetch() -> None:
        nonlocal is_busy
        if is_busy:
            return
        is_busy = True
        try:
            await group.fetch()
        finally:
            is_busy = False

    timer = ui.timer(2.0, fetch)
    view.client.on_disconnect(timer.deactivate)
    view.client.on_connect(timer.activate)


def _head(view: View, group: _Group) -> None:
    target = view.watch.target
    with ui.element("div").classes("head"):
        text_element("h1", group.name)
        view.live(lambda: _state(view, group), lambda name: state(name) if name else None, "")
        ui.element("span").classes("grow")
        copy_button(commands.describe_group(group.name, target))
        ui.button(
            "Reset offsets", icon="history", on_click=lambda: reset_dialog(view, group.name, members.choices(group.lag))
        ).props("outline no-caps dense").style("padding:4px 12px")
        view.live(lambda: _facts(view, group), text_line("span"), "sub")


def _state(view: View, group: _Group) -> str:
    row = view.now.group(group.name)
    return row.state if row else (group.lag or {}).get("state") or ""


def _facts(view: View, group: _Group) -> str:
    row: GroupRow | None = view.now.group(group.name)
    described = group.described or {}
    parts = []
    kind = described.get("type") or (row.type if row else "")
    if kind:
        protocol = described.get("protocol")
        parts.append(f"{kind} group" + (f", {protocol}" if protocol else ""))
    if row:
        parts.append(text.counted(row.members, "member"))
        parts.append(f"{text.count(row.lag)} messages behind" if row.lag is not None else "lag unknown")
        if row.lag_s:
            parts.append(f"{text.duration(row.lag_s)} behind")
    if described.get("epoch") is not None:
        parts.append(f"epoch {described['epoch']}")
    if described.get("coordinator"):
        parts.append(f"coordinator {described['coordinator']}")
    rate = view.watch.once("rates", view.watch.attribution.group_rates).get(group.name)
    if rate is not None:
        parts.append(text.rate(rate))
    return "  ·  ".join(parts)


def _members(view: View, group: _Group) -> None:
    def evict(row: Row) -> None:
        who = row.get("client_id") or row["member_id"]

        async def work() -> str:
            body = {
                "group": group.name,
                "member_id": row["member_id"],
                "group_instance_id": row.get("group_instance_id"),
            }
            await view.api.post("/v1/groups/evict", body)
            return f"{text.shortened(str(who))} was removed from {text.shortened(group.name)}."

        action_dialog(
            view,
            f"Evict {text.shortened(str(who))}",
            f"The member leaves the group at once, and its {text.counted(row.get('assigned') or 0, 'partition')} "
            f"({row.get('partitions') or 'none'}) go to the other members: the group rebalances. "
            "A live client joins again as soon as it notices.",
            work,
            button="Evict",
            command=commands.evict(group.name, row["member_id"], view.watch.target),
            is_dangerous=True,
            allowed=view.now.cluster.may_change,
            why_not=NO_CHANGES,
        )

    with card("Members", "", "flush", "members", group=group.name):
        if not members.member_table(group.described, group.lag).rows:
            empty("person_off", "No members", "The group keeps its offsets; a consumer that joins goes on from there.")
        data_table(
            view,
            lambda: members.member_table(group.described, group.lag),
            "Members",
            key="member_id",
            action=Action("Evict", "person_remove", evict),
            wraps=("partitions",),
            cuts=("member_id", "client_id", "group_instance_id"),
            hides=_hidden(group),
        )


def _hidden(group: _Group) -> tuple[str, ...]:
    has_instances = any(row.get("group_instance_id") for row in (group.described or {}).get("members") or ())
    return ("assigned",) if has_instances else ("assigned", "group_instance_id")


def _partitions(view: View, group: _Group) -> None:
    with card("Partitions", "", "flush", "partitions", group=group.name):
        data_table(
            view,
            lambda: members.partition_table(group.lag),
            "Partitions",
            key="_",
            hrefs={"topic": lambda row: links.link(links.TOPIC, name=row["topic"], partition=row["partition"])},
        )
