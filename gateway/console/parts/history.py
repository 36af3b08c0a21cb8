"""The rebalances of a group above its lag, on one time axis; and the same as a list: compact, full or JSON."""

from __future__ import annotations

import json
from typing import Any

from nicegui import ui

from muster.gateway.console.model import commands, text, timeline
from muster.gateway.console.model.marks import Mark
from muster.gateway.console.model.series import HOUR_MS
from muster.gateway.console.model.timeline import Event
from muster.gateway.console.parts.chart import (
    SECONDS,
    Line,
    color,
    line_series,
    mark_data,
    mark_series,
    marks_script,
    scale,
    time_axis,
    tooltip,
    value_axis,
)
from muster.gateway.console.parts.words import copy_button, downloads, empty, moment
from muster.gateway.console.theme import View, text_element

LANES = (timeline.PAUSED, timeline.HANDED_OUT, timeline.SYNC, timeline.JOIN)
_LANE_NAMES = {"paused": "not consumed", "handed out": "handed out", "sync": "sync", "join": "join"}
_LANE_COLORS = {"join": "accent", "sync": "ok", "handed out": "muted", "paused": "bad"}
_FORMS = {"compact": "Compact", "full": "Full", "json": "JSON"}
MAX_LISTED, FIRST_LISTED = 50, 8
ZOOM_MS = 900_000
"""Part of the axis that is shown at first."""


def history(view: View, group: str) -> None:
    """Draw timeline, lag and list of one group."""
    _chart(view, group)
    form = view.query.get("view") if view.query.get("view") in _FORMS else "compact"
    with ui.element("div").classes("row"):
        with (
            ui.element("div").classes("row seg").props('role="group" aria-label="How much of each rebalance is shown"')
        ):
            buttons = {each: ui.button(name, color=None).props("flat dense no-caps") for each, name in _FORMS.items()}
        ui.element("span").classes("grow")
        copy_button(commands.history(group, view.watch.target))
        downloads("rebalances", group=group)
    shown = form

    def events() -> list[Event]:
        return timeline.events(view.watch.journal.of_group(group, MAX_LISTED))

    shows_all = False

    def draw(found: list[Event]) -> None:
        _list(found if shows_all else found[:FIRST_LISTED], shown or "compact")
        if len(found) > FIRST_LISTED:
            label = "Show fewer" if shows_all else f"Show all {len(found)}"
            ui.button(label, on_click=toggle, color=None).props("flat dense no-caps").classes("tool").style(
                "align-self:flex-start"
            )

    def toggle() -> None:
        nonlocal shows_all
        shows_all = not shows_all
        refresh()

    refresh = view.live(events, draw)

    def choose(each: str) -> None:
        nonlocal shown
        shown = each
        for name, button in buttons.items():
            button.props(f'aria-pressed="{str(name == each).lower()}"')
        view.remember(view=each)
        refresh()

    for each, button in buttons.items():
        button.props(f'aria-pressed="{str(each == form).lower()}"').on_click(lambda each=each: choose(each))


def _list(found: list[Event], form: str) -> None:
    if not found:
        empty(
            "sync_disabled",
            "No rebalance yet",
            "Each join, leave or expiry of a member appears here, with its cause and its cost.",
        )
        return
    if form == "json":
        text_element("pre", json.dumps([each.json for each in found], indent=2, ensure_ascii=False), "json").props(
            'tabindex="0"'
        )
        return
    with ui.element("ol").classes("lane"):
        for each in found:
            with ui.element("li"), ui.element("details") as details:
                if form == "full":
                    details.props("open")
                with ui.element("summary"):
                    moment(each.began_ms, "clock").classes("when")
                    text_element("span", each.title, "what")
                    text_element("span", f"{text.duration_ms(each.ended_ms - each.began_ms)}, {each.ending}", "took")
                    if each.summary:
                        text_element("span", each.summary, "effect")
                with ui.element("dl").classes("facts"):
                    for fact in each.facts:
                        text_element("dt", fact.name)
                        text_element("dd", fact.text)


def _phases(found: list[Event]) -> list[list[Any]]:
    return [
        [LANES.index(phase.kind), phase.start_ms, phase.end_ms, LANES.index(phase.kind), each.title, phase.text]
        for each in found
        for phase in each.phases
        if phase.end_ms > phase.start_ms or phase.kind == timeline.JOIN
    ]


def _chart(view: View, group: str) -> None:
    watch, now_ms = view.watch, view.now.at_ms
    since_ms = now_ms - HOUR_MS
    found = timeline.events(watch.journal.of_group(group))
    lines = [
        Line("Lag, messages", lambda since: watch.curves.points(group, "lag", since)),
        Line("Lag, time", lambda since: watch.curves.points(group, "lag_s", since)),
    ]
    points = [list(line.points(since_ms)) for line in lines]
    firsts = [line[0][0] for line in points if line] + [each.began_ms for each in found if each.began_ms >= since_ms]
    marks: list[Mark] = list(watch.marks.since(since_ms))
    first_ms = min(firsts, default=None)
    left, right = 92, 54
    largest_s = max((value for _, value in points[1] if value is not None), default=0.0)
    span_ms = now_ms - (first_ms or now_ms)
    zoom = {"start": 100 - 100 * ZOOM_MS / span_ms, "end": 100} if span_ms > ZOOM_MS else {}
    options: dict[str, Any] = {
        "animation": False,
        "grid": [
            {"left": left, "right": right, "top": 6, "height": 92},
            {"left": left, "right": right, "top": 138, "bottom": 46},
        ],
        "axisPointer": {"link": [{"xAxisIndex": "all"}]},
        "legend": {
            "top": 108,
            "left": left - 4,
            "icon": "roundRect",
            "itemWidth": 12,
            "itemHeight": 4,
            "textStyle": {":color": color("muted")},
            "data": [line.name for line in lines],
        },
        "dataZoom": [
            {"type": "inside", "xAxisIndex": [0, 1], "filterMode": "none", "zoomOnMouseWheel": "ctrl", **zoom},
            {
                "type": "slider",
                "xAxisIndex": [0, 1],
                "filterMode": "none",
                "height": 14,
                "bottom": 4,
                ":borderColor": color("line"),
                ":fillerColor": color("accent-soft"),
                "showDetail": False,
                "showDataShadow": False,
                "brushSelect": False,
                **zoom,
            },
        ],
        "xAxis": [
            time_axis(now_ms, first_ms, gridIndex=0, axisLabel={"show": False}),
            time_axis(now_ms, first_ms, gridIndex=1),
        ],
        "yAxis": [
            {
                "type": "category",
                "gridIndex": 0,
                "data": [_LANE_NAMES[each] for each in LANES],
                "axisLine": {"show": False},
                "axisTick": {"show": False},
                "axisLabel": {":color": color("muted"), "fontSize": 11.5},
                "splitLine": {"show": True, "lineStyle": {":color": color("line")}},
            },
            value_axis("count", gridIndex=1),
            value_axis(
                "seconds", gridIndex=1, position="right", splitLine={"show": False}, **scale(SECONDS, largest_s)
            ),
        ],
        "tooltip": tooltip("muster.tooltip('count')"),
        "series": [
            {
                "id": "phases",
                "type": "custom",
                "xAxisIndex": 0,
                "yAxisIndex": 0,
                ":renderItem": f"muster.phase({json.dumps([_LANE_COLORS[each] for each in LANES])})",
                "encode": {"x": [1, 2], "y": 0},
                "data": _phases(found),
                "tooltip": {"trigger": "item", ":formatter": "muster.phaseTip"},
                "clip": True,
            },
            line_series(0, lines[0], points[0], xAxisIndex=1, yAxisIndex=1),
            line_series(1, lines[1], points[1], xAxisIndex=1, yAxisIndex=2),
            mark_series(marks, xAxisIndex=1, yAxisIndex=1),
        ],
    }
    options["tooltip"][":formatter"] = "muster.groupTip"
    with ui.element("figure").style("margin:0;min-width:0"):
        chart = ui.echart(options).style("height:330px;width:100%").props('role="img"')
        chart.props["aria-label"] = "Timeline of rebalances above the curve of the lag"
        text_element("figcaption", _in_words(found), "visually-hidden")
    last_ms = max((line[-1][0] for line in points if line), default=0)

    def update() -> None:
        nonlocal found, last_ms, marks
        current = timeline.events(watch.journal.of_group(group))
        if [each.id for each in current] != [each.id for each in found]:
            found = current
            data = json.dumps({"series": [{"id": "phases", "data": _phases(found)}]})
            ui.run_javascript(f"getElement({chart.id})?.chart?.setOption({data})")
        row = view.now.group(group)
        rows = {at_ms: [value, None] for at_ms, value in lines[0].points(last_ms)}
        for at_ms, value in lines[1].points(last_ms):
            rows.setdefault(at_ms, [None, None])[1] = value
        if row is not None:
            rows[max(view.now.at_ms, last_ms)] = [row.lag, row.lag_s]
        if not rows:
            return
        last_ms = max((at for at in rows if at != view.now.at_ms), default=last_ms)
        pushed = [[at_ms, *values] for at_ms, values in sorted(rows.items())]
        ui.run_javascript(
            f"muster.push({chart.id}, {json.dumps(pushed)}, {view.now.at_ms - HOUR_MS}, {{1: 'seconds'}})"
        )
        if (now := list(watch.marks.since(view.now.at_ms - HOUR_MS))) != marks:
            marks = now
            ui.run_javascript(f"muster.marks({chart.id}, {marks_script(mark_data(marks))})")

    view.on_change(update)


def _in_words(found: list[Event]) -> str:
    if not found:
        return "No rebalances."
    number = text.counted(len(found), "rebalance")
    return f"{number}, the last: {found[0].title}. {found[0].summary}. Each is in the list below."
