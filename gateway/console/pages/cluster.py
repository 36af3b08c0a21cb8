"""The cluster: nodes as boxes, actors as chips; what an actor is, its faults; drain and undrain; the mapping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicegui import ui

from muster.gateway.console.model import cluster, commands, links, text
from muster.gateway.console.model.cluster import Box
from muster.gateway.console.model.marks import fault_text
from muster.gateway.console.model.snapshot import ActorRow, NodeRow
from muster.gateway.console.parts.dialog import NO_CHANGES, NO_FAULTS, action_dialog, dialog_named
from muster.gateway.console.parts.table import data_table
from muster.gateway.console.parts.words import (
    card,
    copy_button,
    empty,
    facts,
    look_of,
    missing,
    moment,
    notice,
    state,
)
from muster.gateway.console.theme import View, page, text_element, text_line

if TYPE_CHECKING:
    from muster.gateway.console.console import ConsoleServer

_EFFECTS = {
    "kill": "gets SIGKILL. A standby serves what it served, and Ray starts the process again.",
    "pause": "gets SIGSTOP, until the fault is cleared or 30 s are over. Clients wait as for a process that hangs.",
    "slow": "runs a tenth of the time, until the fault is cleared or 60 s are over.",
}
_FAULTS: dict[str, dict[str, Any]] = {
    "kill": {},
    "pause": {"expires_ms": 30_000},
    "slow": {"speed": 0.1, "expires_ms": 60_000},
}


def add_page(console: ConsoleServer) -> None:
    """Serve the page."""

    @page(console, links.CLUSTER, "Cluster")
    async def draw(view: View) -> None:
        drains: dict[str, int] = {}
        with ui.element("div").classes("head"):
            text_element("h1", "Cluster")
            view.live(lambda: cluster.in_words(view.now), text_line("span", "muted"), "")
            ui.element("span").classes("grow")
            copy_button(commands.status())
            view.live(lambda: _facts(view), text_line("span"), "sub")

        def boxes() -> tuple[Any, ...]:
            return view.now.nodes, view.now.actors, view.now.status_error, view.now.faults

        def show(_: tuple[Any, ...]) -> None:
            if view.now.status_error:
                empty("visibility_off", "Nodes and actors cannot be shown", view.now.status_error)
            for box in cluster.boxes(view.now):
                _node(view, box, drains)

        view.live(boxes, show, "nodes")
        with card("Mapping of clients to groups", "in ZooKeeper, repaired by the reconciler"):
            if view.watch.lacks("/v1/mapping"):
                missing("/v1/mapping")
            else:
                view.live(lambda: dict(view.watch.mapping), _mapping)
        with card("All actors", "", "flush", "actors"):
            data_table(
                view, lambda: cluster.actor_table(view.now), "Actors", key="name", states=("state",), wraps=("error",)
            )
        if wanted := view.query.get("actor"):
            found = next((actor for actor in view.now.actors if actor.name == wanted), None)
            if found is not None:
                _actor_dialog(view, found)


def _facts(view: View) -> str:
    now = view.now
    parts = [f"cluster {now.cluster.cluster_id}" if now.cluster.cluster_id else ""]
    parts.append(f"Muster {now.cluster.version}" if now.cluster.version else "")
    parts.append(
        f"{text.counted(len(now.cluster.gateways), 'gateway')}: {now.cluster.bootstrap}"
        if now.cluster.bootstrap
        else ""
    )
    return "  ·  ".join(filter(None, parts))


def _node(view: View, box: Box, drains: dict[str, int]) -> None:
    node = box.node
    with ui.element("section").classes("node") as section:
        section.props["aria-label"] = f"Node {node.address or 'none'}"
        with ui.element("div").classes("row"):
            text_element("h2", node.address or "On no node")
            state(node.state)
            ui.element("span").classes("grow")
            if node.node_id and node.state in ("alive", "draining", "drained"):
                _drain_button(view, node, drains)
        about = [text.counted(box.size, "actor")]
        if node.cpu is not None:
            about.append(f"{text.short_count(node.cpu)} CPU")
        if node.memory_bytes:
            about.append(text.size(node.memory_bytes))
        if node.node_id:
            about.append(node.node_id[:8])
        text_element("div", "  ·  ".join(about), "muted small")
        if node.state == "draining":
            _progress(node, drains.get(node.node_id, len(node.actors)))
        for role in box.roles:
            with ui.element("div").classes("role"):
                text_element("div", role.name, "muted small")
                with ui.element("div").classes("chips"):
                    for actor in role.actors:
                        _chip(view, actor)


def _progress(node: NodeRow, started_with: int) -> None:
    done = cluster.drain_progress(node, started_with)
    with ui.element("div").classes("bar").props('role="progressbar" aria-valuemin="0" aria-valuemax="100"') as bar:
        bar.props["aria-valuenow"] = str(round(done * 100))
        bar.props["aria-label"] = f"Drain of {node.address}"
        ui.element("i").style(f"width:{done * 100:.0f}%")
    text_element("div", f"{text.counted(len(node.actors), 'actor')} still here", "muted small")


def _chip(view: View, actor: ActorRow) -> None:
    level, icon = look_of(actor.state)
    faulty = [fault for fault in view.now.faults if fault.actor == actor.name]
    with ui.element("button").classes(f"chip {level if level in ('bad', 'warn') else ''}") as chip:
        chip.props["type"] = "button"
        chip.on("click", lambda: _actor_dialog(view, actor))
        ui.icon(icon).classes(level).props('aria-hidden="true"')
        text_element("span", actor.name)
        if actor.state != "alive":
            text_element("span", actor.state)
        else:
            text_element("span", "alive", "visually-hidden")
        if actor.restarts:
            text_element("span", f"↻\u202f{actor.restarts}", "muted").props["title"] = text.counted(
                actor.restarts, "restart"
            )
        if faulty:
            ui.icon("bolt").classes("bad").props('aria-hidden="true"')
            text_element("span", ", ".join(str(fault.fault.get("action")) for fault in faulty), "bad")


def _actor_dialog(view: View, actor: ActorRow) -> None:
    with dialog_named(actor.name) as dialog, ui.card():
        with ui.element("div").classes("row"):
            text_element("h2", actor.name)
            state(actor.state)
        pairs = [
            ("Kind", cluster.ROLES.get(cluster.kind_of(actor.name), "actor")),
            ("Node", cluster.address_of(view.now, actor.node_id) or text.UNKNOWN),
            ("Pid", str(actor.pid or text.UNKNOWN)),
            ("Restarts", text.count(actor.restarts)),
        ]
        if actor.address:
            pairs.append(("Kafka", actor.address))
        if actor.standby:
            pairs.append(("In its place", actor.standby))
        if actor.error:
            pairs.append(("Error", actor.error))
        facts(pairs)
        for fault in view.now.faults:
            if fault.actor == actor.name:
                notice(f"Fault {fault.id}: {fault_text(fault.fault, fault.actor)}", "bad", "bolt")
        recent = [mark for mark in view.watch.marks.since() if actor.name in mark.text][-5:]
        if recent:
            text_element("h3", "In the last hour")
            for mark in reversed(recent):
                with ui.element("div").classes("row"):
                    moment(mark.at_ms, "clock").classes("muted")
                    text_element("span", mark.text)
        if cluster.can_be_faulted(actor.name):
            text_element("h3", "Break it on purpose")
            with ui.element("div").classes("row"):
                for action, icon in (("kill", "dangerous"), ("pause", "pause"), ("slow", "slow_motion_video")):
                    ui.button(
                        action.capitalize(), icon=icon, on_click=lambda action=action: _fault(view, actor.name, action)
                    ).props("outline no-caps dense")
                with ui.element("a").classes("link") as more:
                    more.props["href"] = links.link(links.FAULTS, actor=actor.name)
                    text_element("span", "More faults")
        with ui.element("div").classes("row").style("justify-content:flex-end"):
            ui.button("Close", on_click=dialog.close).props("flat no-caps")
    dialog.open()


def _fault(view: View, actor: str, action: str) -> None:
    fault = {"action": action, "actor": actor, **_FAULTS[action]}

    async def work() -> str:
        done = await view.api.post("/v1/faults", fault)
        return f"Fault {done['id']}: {action} {actor}."

    action_dialog(
        view,
        f"{action.capitalize()} {actor}",
        f"{actor} {_EFFECTS[action]}",
        work,
        button=action.capitalize(),
        command=commands.fault(fault, view.watch.target),
        is_dangerous=True,
        allowed=view.now.cluster.may_fault,
        why_not=NO_FAULTS,
    )


def _drain_button(view: View, node: NodeRow, drains: dict[str, int]) -> None:
    undo = node.state != "alive"

    async def work() -> str:
        await view.api.post(f"/v1/nodes/{'undrain' if undo else 'drain'}", {"node_id": node.node_id})
        if not undo:
            drains[node.node_id] = len(node.actors)
        return f"Actors may run on {node.address} again." if undo else f"{node.address} is being drained."

    def confirm() -> None:
        says = (
            f"Actors may be placed on {node.address} again, and a share of them moves there."
            if undo
            else f"All {text.counted(len(node.actors), 'actor')} move off {node.address}, one by one, and none "
            "is placed there. No group rebalances; clients of its gateway connect to another one."
        )
        action_dialog(
            view,
            f"{'Undrain' if undo else 'Drain'} {node.address}",
            says,
            work,
            button="Undrain" if undo else "Drain",
            command=commands.drain(node.address, undo),
            is_dangerous=not undo,
            allowed=view.now.cluster.may_change,
            why_not=NO_CHANGES,
        )

    ui.button("Undrain" if undo else "Drain", on_click=confirm).props("outline no-caps dense").classes("slim")


def _mapping(report: dict[str, Any]) -> None:
    if not report:
        text_element("p", "Nothing is known of the reconciler yet.", "muted")
        return
    divergence, repairs = report.get("divergence") or {}, report.get("repairs") or {}
    wrong = sum(divergence.values())
    if report.get("trouble"):
        notice(f"The reconciler cannot compare them: {report['trouble']}", "warn", "warning")
    elif wrong:
        notice(
            f"{text.counted(wrong, 'entry', 'entries')} not as the coordinators say; the next round repairs that.",
            "warn",
            "warning",
        )
    else:
        notice("ZooKeeper and the coordinators agree.", "ok", "check_circle")
    pairs = [("Rounds", text.count(report.get("rounds")))]
    if report.get("registrations") is not None:
        pairs.append(("Registrations", text.count(report["registrations"])))
    pairs += [
        (f"Differs: {kind.replace('_', ' ')}", text.count(number)) for kind, number in divergence.items() if number
    ]
    pairs += [(f"Repaired: {kind.replace('_', ' ')}", text.count(number)) for kind, number in repairs.items() if number]
    if report.get("last_round_took_ms") is not None:
        pairs.append(("Last round took", f"{report['last_round_took_ms']:g} ms"))
    facts(pairs)
    with ui.element("div").classes("row"):
        copy_button(commands.mapping())
