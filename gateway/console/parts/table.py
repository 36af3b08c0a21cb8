"""Tables of plain values: sorted in the browser, names as text, states with icons, times in the viewer's zone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments

from muster.gateway.console.model.table import Column, Kind, Row, Table, cell
from muster.gateway.console.parts.words import look_of
from muster.gateway.console.theme import View, text_element

MAX_ROWS = 1_000
"""Rows that are sent to the browser; the downloads have all."""
Href = Callable[[Row], str | None]
_LINK = (
    '<q-td :props="props"><a v-if="props.row._href_{0}" class="link" :href="props.row._href_{0}">'
    "{{{{ props.value }}}}</a><span v-else>{{{{ props.value }}}}</span></q-td>"
)
_STATE = (
    '<q-td :props="props"><span class="state" :class="props.row._class_{0}">'
    '<q-icon :name="props.row._icon_{0}" aria-hidden="true"></q-icon>{{{{ props.value }}}}</span></q-td>'
)
_TIME = '<q-td :props="props"><muster-time :ms="props.row._{0}" mode="full"></muster-time></q-td>'
_HEADER = (
    '<q-th :props="props" :aria-sort="!/ sorted/.test(props.col.__thClass) ? null : '
    "/ sort-desc/.test(props.col.__thClass) ? 'descending' : 'ascending'\">"
    '<button v-if="props.col.sortable" type="button" class="plainbutton">{{ props.col.label }}</button>'
    "<template v-else>{{ props.col.label }}</template></q-th>"
)
"""Vue's templates: values are texts there, never HTML."""


class Action:
    """A button in each row."""

    def __init__(self, label: str, icon: str, act: Callable[[Row], Any]) -> None:
        self.label = label
        self.icon = icon
        self.act = act


def data_table(
    view: View,
    compute: Callable[[], Table],
    label: str,
    *,
    key: str,
    hrefs: Mapping[str, Href] | None = None,
    states: tuple[str, ...] = (),
    wraps: tuple[str, ...] = (),
    cuts: tuple[str, ...] = (),
    hides: tuple[str, ...] = (),
    action: Action | None = None,
    on_row: Callable[[Row], Any] | None = None,
    rows_per_page: int = 25,
    is_live: bool = True,
    nothing: str = "Nothing yet",
) -> Callable[[], None]:
    """Draw a table, and keep its rows up to date. Returns what updates it at once.

    ``hrefs`` by column: where a cell leads. ``states``: columns that are drawn as states. ``wraps``, ``cuts``:
    columns with long texts, on several lines or cut. ``hides``: columns that only the downloads have. ``nothing``: text
    in place of the rows if there are none.
    """
    raw = compute()
    shown: list[dict[str, Any]] = []

    def to_rows(found: Table) -> list[dict[str, Any]]:
        rows = []
        for number, row in enumerate(found.rows[:MAX_ROWS]):
            out: dict[str, Any] = {"_key": f"{row.get(key)}\0{number}" if key not in row else str(row[key])}
            for column in found.columns:
                value = row.get(column.name)
                out[column.name] = cell(column, value)
                if column.is_number or column.kind is Kind.TIME:
                    out[f"_{column.name}"] = value
                if column.name in states:
                    out[f"_class_{column.name}"], out[f"_icon_{column.name}"] = look_of(str(value))
                if hrefs and column.name in hrefs:
                    out[f"_href_{column.name}"] = hrefs[column.name](row)
            rows.append(out)
        return rows

    shown = _unique(to_rows(raw))
    columns = [
        _column(column, "wrap" if column.name in wraps else "cut" if column.name in cuts else "")
        for column in raw.columns
        if column.name not in hides
    ]
    if action is not None:
        columns.append({"name": "_action", "label": "Action", "field": "_key", "align": "right"})
    table = ui.table(columns=columns, rows=shown, row_key="_key", pagination={"rowsPerPage": rows_per_page})
    table.props("flat dense binary-state-sort").props(':rows-per-page-options="[10,25,50,100,0]"')
    table.props["aria-label"] = label
    table.add_slot("header-cell", _HEADER)
    with table.add_slot("no-data"):
        text_element("span", nothing, "muted")
    if len(shown) <= rows_per_page:
        table.props("hide-pagination")
    for column in raw.columns:
        if hrefs and column.name in hrefs:
            table.add_slot(f"body-cell-{column.name}", _LINK.format(column.name))
        elif column.name in states:
            table.add_slot(f"body-cell-{column.name}", _STATE.format(column.name))
        elif column.kind is Kind.TIME:
            table.add_slot(f"body-cell-{column.name}", _TIME.format(column.name))
    if action is not None:
        _add_action(table, action, lambda row_key: _row_of(compute(), key, row_key))
    if on_row is not None:
        _add_opener(table, raw.columns[0], on_row, lambda row_key: _row_of(compute(), key, row_key))

    def update() -> None:
        nonlocal shown
        found = _unique(to_rows(compute()))
        if found != shown:
            shown = found
            table.rows = found
            if len(found) <= rows_per_page:
                table.props("hide-pagination")
            else:
                table.props(remove="hide-pagination")

    if is_live:
        view.on_change(update)
    return update


def _unique(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    seen: dict[str, int] = {}
    for row in rows:
        number = seen[row["_key"]] = seen.get(row["_key"], 0) + 1
        if number > 1:
            row["_key"] = f"{row['_key']}\0{number}"
    return rows


def _row_of(table: Table, key: str, wanted: str) -> Row | None:
    name, _, number = wanted.partition("\0")
    found = [row for row in table.rows if str(row.get(key)) == name]
    index = int(number) - 1 if number else 0
    return found[index] if index < len(found) else None


def _column(column: Column, classes: str) -> dict[str, Any]:
    return {
        "name": column.name,
        "label": column.label,
        "field": column.name,
        "align": "right" if column.is_number else "left",
        "sortable": True,
        "classes": classes,
        ":sort": f"(a, b, ra, rb) => muster.sort(ra, rb, {json.dumps(column.name)})",
    }


def _add_action(table: ui.table, action: Action, find: Callable[[str], Row | None]) -> None:
    template = (
        '<q-td :props="props"><q-btn flat dense no-caps no-wrap class="tool slim" icon="{0}" label="{1}" '
        "@click.stop=\"() => $parent.$emit('act', props.row._key)\"></q-btn></q-td>"
    )
    table.add_slot("body-cell-_action", template.format(action.icon, action.label))

    def act(event: GenericEventArguments) -> Any:
        row = find(str(event.args))
        return None if row is None else action.act(row)

    table.on("act", act)


def _add_opener(table: ui.table, column: Column, act: Callable[[Row], Any], find: Callable[[str], Row | None]) -> None:
    template = (
        '<q-td :props="props"><button type="button" class="link plainbutton" '
        "@click.stop=\"() => $parent.$emit('open', props.row._key)\">{{{{ props.value }}}}</button></q-td>"
    )
    table.add_slot(f"body-cell-{column.name}", template.format())

    def opened(event: GenericEventArguments) -> Any:
        row = find(str(event.args))
        return None if row is None else act(row)

    table.on("open", opened)
