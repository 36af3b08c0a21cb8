"""The list of groups: virtual rows, sorted and filtered on the console's side, for tens of thousands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicegui import ui

from muster.gateway.console.model import commands, groups, links, text
from muster.gateway.console.model.groups import Choice
from muster.gateway.console.parts.words import card, copy_button, downloads, empty
from muster.gateway.console.theme import View, page, text_element, text_line

if TYPE_CHECKING:
    from muster.gateway.console.console import ConsoleServer

_REFRESH_S = 2.0
_WIDTHS = {
    "group": 240,
    "lag_s": 110,
    "lag": 105,
    "state": 185,
    "members": 115,
    "behind": 105,
    "without_commit": 110,
    "bytes_s": 110,
    "type": 100,
}
_SHOWN = ("group", "lag_s", "lag", "state", "members", "behind", "without_commit", "bytes_s", "type")
_TEXT = "p => p.data ? String(p.data[p.colDef.field]) : ''"


def add_page(console: ConsoleServer) -> None:
    """Serve the page."""

    @page(console, links.GROUPS, "Groups")
    async def draw(view: View) -> None:
        choice = Choice.of(view.query)
        with ui.element("div").classes("head"):
            text_element("h1", "Groups")
            view.live(lambda: _counted(console, view), text_line("span", "muted"), "")
            ui.element("span").classes("grow")
            copy_button(commands.lag(view.watch.target))
        with card(classes="flush"):
            with ui.element("div").classes("cardhead").style("padding-bottom:10px"):
                query = ui.input(placeholder="Filter by name", value=choice.query)
                query.props(
                    'outlined dense clearable debounce="250" type="search" aria-label="Filter groups by name"'
                ).classes("page-search")
                states = ui.select(_states(view, choice), value=choice.state).props("outlined dense options-dense")
                states.props["aria-label"] = "State"
                shows = ui.select(dict(groups.SHOW), value=choice.show).props("outlined dense options-dense")
                shows.props["aria-label"] = "Which groups"
                view.live(lambda: _filters(view), lambda found: downloads("groups", **found), "downloads")
            if not view.now.groups and not view.now.error:
                empty(
                    "groups",
                    "No groups yet",
                    f"Connect a consumer to {view.now.cluster.bootstrap or 'a gateway'}, and its group appears here.",
                    f"kafka-console-consumer.sh --bootstrap-server {view.now.cluster.bootstrap or 'HOST:PORT'} "
                    "--topic TOPIC --group my-group",
                )
            grid = _grid(view, choice)

        def changed() -> None:
            view.remember(q=query.value, state=states.value, show=shows.value)
            grid.run_grid_method("purgeInfiniteCache")

        for field in (query, states, shows):
            field.on_value_change(changed)
        options = dict(states.options)

        def update() -> None:
            nonlocal options
            if (found := _states(view, Choice.of(view.query))) != options:
                options = found
                states.set_options(found)

        view.on_change(update)
        timer = ui.timer(_REFRESH_S, lambda: grid.run_grid_method("refreshInfiniteCache"))
        view.client.on_disconnect(timer.deactivate)
        view.client.on_connect(timer.activate)


def _filters(view: View) -> dict[str, str]:
    return {name: view.query[name] for name in ("q", "state", "show") if view.query.get(name)}


def _counted(console: ConsoleServer, view: View) -> str:
    choice, total = Choice.of(view.query), len(view.now.groups)
    if not (choice.query or choice.state or choice.show):
        return text.counted(total, "group")
    found = console.chosen(view.watch, choice, view.watch.once("rates", view.watch.attribution.group_rates))
    return f"{text.count(len(found))} of {text.counted(total, 'group')}"


def _states(view: View, choice: Choice) -> dict[str, str]:
    names = {*view.watch.once("states", view.now.states), *([choice.state] if choice.state else [])}
    return {"": "Any state", **{name: name for name in sorted(names)}}


def _grid(view: View, choice: Choice) -> ui.aggrid:
    labels = {column.name: column for column in groups.COLUMNS}
    columns: list[dict[str, Any]] = []
    for name in _SHOWN:
        column = labels[name]
        definition: dict[str, Any] = {
            "headerName": column.label,
            "field": name,
            ":valueGetter": _TEXT,
            "sortable": True,
            "width": _WIDTHS[name],
            "minWidth": 90,
            "sortingOrder": ["desc", "asc", None] if name in groups.LARGEST_FIRST else ["asc", "desc", None],
            "suppressMovable": True,
        }
        if column.is_number:
            definition |= {"type": "rightAligned"}
        if name == "group":
            definition |= {"cellClass": "is-name", "flex": 1, "minWidth": 150}
        if name == "state":
            definition |= {
                ":valueFormatter": "p => p.value ? muster.stateMark(p.value) + '  ' + p.value : ''",
                ":cellClass": "p => muster.stateClass(p.value)",
            }
        if name == "type":
            definition[":hide"] = "innerWidth < 1360"
        if name == choice.sort:
            definition["sort"] = "desc" if choice.descending else "asc"
        columns.append(definition)
    grid = ui.aggrid(
        {
            "columnDefs": columns,
            "rowModelType": "infinite",
            "cacheBlockSize": 100,
            "maxBlocksInCache": 10,
            "infiniteInitialRowCount": min(len(view.now.groups), 100) or 1,
            ":datasource": "muster.groups()",
            ":getRowId": "p => p.data.group",
            "rowHeight": 36,
            "headerHeight": 38,
            "suppressCellFocus": False,
            "enableCellTextSelection": True,
            "suppressNoRowsOverlay": True,
            ":onRowClicked": "muster.openGroup",
            ":onCellKeyDown": "e => e.event.key === 'Enter' && muster.openGroup(e)",
            ":onSortChanged": "muster.groupsSorted",
        },
        auto_size_columns=False,
    )
    rows = max(len(view.now.groups), 3)
    return grid.style(f"height:min(calc(100vh - 240px), {38 + rows * 36 + 20}px);min-height:220px").props(
        'aria-label="Groups"'
    )
