"""The overview: what needs attention, then states, curves, nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from muster.gateway.console.model import cluster, commands, links, text
from muster.gateway.console.model.attribution import GROUPS, REASON_TEXTS, REASONS
from muster.gateway.console.model.links import link
from muster.gateway.console.model.marks import REBALANCE, Mark
from muster.gateway.console.model.overview import Attention, Level, attention
from muster.gateway.console.model.series import GROUP_STEP_MS, HOUR_MS, TOTAL_STEP_MS
from muster.gateway.console.model.snapshot import lag_totals
from muster.gateway.console.parts.chart import COUNT, RATE, SECONDS, Line, Points, time_chart
from muster.gateway.console.parts.words import card, copy_button, empty, look_of, missing, state
from muster.gateway.console.theme import View, page, text_element

if TYPE_CHECKING:
    from muster.gateway.console.console import ConsoleServer

SHORT_MS = 300_000
_ICONS = {Level.CRITICAL: ("error", "bad"), Level.WARNING: ("warning", "warn"), Level.NOTE: ("info", "info")}
_WORDS = {Level.CRITICAL: "Critical", Level.WARNING: "Warning", Level.NOTE: "Note"}
MAX_GROUP_LINES = 4


def add_page(console: ConsoleServer) -> None:
    """Serve the page."""

    @page(console, links.OVERVIEW, "Overview")
    async def draw(view: View) -> None:
        is_short = view.query.get("range") == "5m"
        with ui.element("div").classes("head"):
            text_element("h1", "Overview")
            ui.element("span").classes("grow")
            with ui.element("div").classes("row seg").props('role="group" aria-label="Time range"'):
                for value, name in (("5m", "5 min"), ("", "1 hour")):
                    button = ui.button(
                        name, color=None, on_click=lambda value=value: ui.navigate.to(view.here(range=value))
                    )
                    button.props(f'flat dense no-caps aria-pressed="{str((value == "5m") == is_short).lower()}"')
            copy_button(commands.lag(view.watch.target))
        _attention(view)
        _stats(view)
        with ui.element("div").classes("grid"):
            _curves(view, is_short)
            _unattributed(view)
            _nodes(view)


def _attention(view: View) -> None:
    watch = view.watch

    def compute() -> list[Attention]:
        return watch.once("attention", lambda: attention(watch.now, watch.curves, watch.journal, watch.attribution))

    def draw(found: list[Attention]) -> None:
        if not found:
            with ui.element("div").classes("row").style("padding:4px 16px 14px"):
                ui.icon("check_circle").classes("ok").style("font-size:19px").props('aria-hidden="true"')
                text_element("span", _all_well(view))
            return
        with ui.element("ul").classes("attention"):
            for each in found:
                icon, level = _ICONS[each.level]
                with ui.element("li"), ui.element("a") as anchor:
                    anchor.props["href"] = each.href
                    ui.icon(icon).classes(level).props('aria-hidden="true"')
                    text_element("span", f"{_WORDS[each.level]}: ", "visually-hidden")
                    text_element("span", each.text)
                    ui.icon("chevron_right").classes("go").props('aria-hidden="true"')

    with card("Needs attention", classes="flush"):
        view.live(compute, draw)


def _all_well(view: View) -> str:
    if not view.now.at_ms:
        return "Waiting for the first answer of the cluster."
    if not view.now.groups:
        return "Nothing. There are no groups yet."
    return "Nothing. Groups consume, nobody waits, actors are alive."


def _stats(view: View) -> None:
    def compute() -> tuple[tuple[str, str, str], ...]:
        now, attribution = view.now, view.watch.attribution
        lag, lag_s = view.watch.once("lag", lambda: lag_totals(now.groups))
        out = attribution.rate_of(GROUPS)
        return (
            ("Groups", text.count(len(now.groups)), links.GROUPS),
            ("Oldest unread message", text.duration(lag_s), link(links.GROUPS, sort="lag_s", desc="1")),
            ("Messages behind", text.short_count(lag), link(links.GROUPS, sort="lag", desc="1")),
            ("Sent to groups", text.rate(out), links.ATTRIBUTION),
            ("Actors alive", f"{sum(a.state == 'alive' for a in now.actors)} / {len(now.actors)}", links.CLUSTER),
        )

    def draw(found: tuple[tuple[str, str, str], ...]) -> None:
        for name, value, href in found:
            with ui.element("a").classes("stat plain") as anchor:
                anchor.props["href"] = href
                text_element("div", value, "value")
                text_element("div", name, "name")

    with card():
        view.live(compute, draw, "stats")
        view.live(lambda: view.watch.once("states", view.now.states), _draw_states, "row")


def _draw_states(states: dict[str, int]) -> None:
    if not states:
        text_element("span", "No groups yet: connect a consumer, and it appears here.", "muted")
    for name, number in states.items():
        with ui.element("a").classes("chip") as anchor:
            anchor.props["href"] = link(links.GROUPS, state=name)
            state(name)
            text_element("span", text.count(number), "strong")


def _curves(view: View, is_short: bool) -> None:
    watch = view.watch
    span_ms = SHORT_MS if is_short else HOUR_MS
    began = watch.totals.points("lag")
    is_young = not began or began[0][0] > view.now.at_ms - SHORT_MS
    step_ms = TOTAL_STEP_MS if is_short or is_young else GROUP_STEP_MS

    def line(name: str, curve: str) -> Line:
        def points(since_ms: int) -> Points:
            if step_ms == TOTAL_STEP_MS:
                return watch.totals.points(curve, since_ms)
            return watch.totals.coarse(curve, step_ms, since_ms)

        return Line(name, points)

    def marks() -> list[Mark]:
        since_ms = view.now.at_ms - span_ms
        found = [*watch.marks.since(since_ms)]
        if is_short:
            found += [Mark(b.began_ms, REBALANCE, f"{b.group}: {b.cause}") for b in watch.journal.since(since_ms)]
        return sorted(found)

    title = "last 5 minutes" if is_short else "last hour"
    with card("Lag, time", "age of the oldest unread message", "w6"):
        time_chart(
            view, f"Lag in seconds, {title}", [line("Lag, time", "lag_s")], SECONDS, marks=marks, span_ms=span_ms
        )
    with card("Lag, messages", "all groups", "w6"):
        time_chart(
            view, f"Lag in messages, {title}", [line("Messages behind", "lag")], COUNT, marks=marks, span_ms=span_ms
        )
    with card("Bytes", "sent to groups, produced by clients", "w6"):
        if watch.lacks("/v1/attribution"):
            missing("/v1/attribution")
        else:
            lines = [line("Sent", "out_bytes_s"), line("Produced", "in_bytes_s")]
            time_chart(view, f"Bytes per second, {title}", lines, RATE, marks=marks, span_ms=span_ms)
    with card("Rebalances per minute", "all groups", "w6"):

        def per_minute(since_ms: int) -> Points:
            return [each for each in watch.journal.per_minute(view.now.at_ms) if each[0] + 60_000 > since_ms]

        lines = [Line("Rebalances", per_minute)]
        time_chart(
            view, "Rebalances per minute, last hour", lines, COUNT, marks=lambda: watch.marks.since(0), is_bar=True
        )
    with card("Bytes per group", "the largest now", "w6"):
        _group_bytes(view)


def _group_bytes(view: View) -> None:
    watch = view.watch
    if watch.lacks("/v1/attribution"):
        missing("/v1/attribution")
        return

    def draw(names: list[str]) -> None:
        if not names:
            empty("query_stats", "No bytes yet", "What groups fetch appears here within some seconds.")
            return

        def line(name: str) -> Line:
            return Line(text.shortened(name, 32), lambda since_ms: watch.curves.points(name, "bytes_s", since_ms))

        lines = [line(name) for name in names]
        time_chart(view, "Bytes per second of the largest groups", lines, RATE)

    view.live(lambda: watch.once("largest", lambda: watch.curves.largest("bytes_s", MAX_GROUP_LINES)), draw)


def _unattributed(view: View) -> None:
    watch = view.watch

    def compute() -> tuple[str, tuple[tuple[str, str, str], ...]]:
        sums = watch.attribution.sums(REASONS)
        rows = tuple(
            (reason.replace("_", " "), text.size(found.bytes), REASON_TEXTS.get(reason, ""))
            for reason, found in sums.items()
            if found.bytes
        )
        return text.share(watch.attribution.unattributed_share()), rows

    def draw(found: tuple[str, tuple[tuple[str, str, str], ...]]) -> None:
        share, rows = found
        if watch.lacks("/v1/attribution"):
            missing("/v1/attribution")
            return
        with ui.element("a").classes("stat plain") as anchor:
            anchor.props["href"] = links.ATTRIBUTION
            text_element("div", share, "value")
            text_element("div", "of the bytes sent since the gateways started", "name")
        if rows:
            with ui.element("dl").classes("facts"):
                for reason, amount, meaning in rows[:5]:
                    text_element("dt", f"{reason}  {amount}")
                    text_element("dd", meaning, "muted")
        else:
            text_element("p", "Every byte has a group.", "muted")

    with card("Without a group", classes="w6"):
        view.live(compute, draw)


def _nodes(view: View) -> None:
    def compute() -> tuple[object, ...]:
        return view.now.nodes, view.now.actors, view.now.status_error

    def draw(_: tuple[object, ...]) -> None:
        if view.now.status_error:
            empty("visibility_off", "Nodes and actors cannot be shown", view.now.status_error)
            return
        text_element("p", cluster.in_words(view.now), "muted")
        for box in cluster.boxes(view.now):
            with ui.element("div").classes("role"):
                with ui.element("div").classes("row"):
                    text_element("span", box.node.address or "no node", "strong")
                    state(box.node.state)
                with ui.element("div").classes("chips"):
                    for role in box.roles:
                        bad = [actor for actor in role.actors if look_of(actor.state)[0] in ("bad", "warn")]
                        with ui.element("a").classes(f"chip {'bad' if bad else ''}") as anchor:
                            anchor.props["href"] = links.CLUSTER
                            ui.icon("error" if bad else "check_circle").classes("" if bad else "ok").props(
                                'aria-hidden="true"'
                            )
                            said = f"{role.name} {len(role.actors)}"
                            text_element("span", f"{said}, {len(bad)} not alive" if bad else said)

    with card("Nodes and actors", classes="w12"):
        view.live(compute, draw)
