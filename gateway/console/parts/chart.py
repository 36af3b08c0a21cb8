"""Curves over time, with marks; each has a text for who does not see it. Options are those of Apache ECharts.

Values that begin with a colon are evaluated in the browser: they are texts of this module only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from nicegui import ui

from muster.gateway.console.model import text
from muster.gateway.console.model.marks import ACTOR, FAULT, Mark
from muster.gateway.console.model.series import HOUR_MS
from muster.gateway.console.theme import View, text_element

Points = Sequence[tuple[int, float | None]]
COUNT, RATE, SECONDS = "count", "rate", "seconds"
_TEXTS = {COUNT: text.short_count, RATE: text.rate, SECONDS: text.duration}
COLORS = ("accent", "warn", "ok", "bad")
MAX_MARKS = 60


class Line(NamedTuple):
    """One curve. ``points``: from that time on (ms), in order of time."""

    name: str
    points: Callable[[int], Points]


def color(name: str) -> str:
    """Return the expression for a colour of the theme."""
    return f"muster.color({json.dumps(name)})"


def time_axis(now_ms: int, first_ms: int | None, span_ms: int = HOUR_MS, **more: Any) -> dict[str, Any]:
    """Return the axis of the last hour; of less if the console has not looked for so long."""
    start = max(now_ms - span_ms, min(first_ms or now_ms, now_ms - 300_000))
    return {
        "type": "time",
        "min": start,
        "max": now_ms,
        "axisLine": {"lineStyle": {":color": color("line")}},
        "axisTick": {"show": False},
        "axisLabel": {":color": color("muted"), "fontSize": 11.5, "hideOverlap": True},
        "splitLine": {"show": False},
        **more,
    }


def value_axis(kind: str, **more: Any) -> dict[str, Any]:
    """Return an axis of values with labels in the unit of the kind."""
    return {
        "type": "value",
        "min": 0,
        "splitNumber": 3,
        "axisLabel": {":color": color("muted"), "fontSize": 11.5, ":formatter": f"muster.format.{kind}"},
        "splitLine": {"lineStyle": {":color": color("line")}},
        **more,
    }


_STEPS_S = (
    0.05,
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    14400,
    21600,
    43200,
    86400,
)


def seconds_step(largest: float) -> float:
    """Return the distance of the lines of an axis of seconds: whole minutes and hours. muster.push has the same."""
    return next((step for step in _STEPS_S if largest / step <= 4), 86400 * (largest // 345600 + 1))


def bytes_step(largest: float) -> float:
    """Return the distance of the lines of an axis of bytes: a power of 2."""
    return 2.0 ** max(math.ceil(math.log2(max(largest, 1) / 4)), 0)


def scale(kind: str, largest: float) -> dict[str, float]:
    """Return distance of the lines and end of an axis; empty where ECharts' own are good. muster.push has the same."""
    if kind == COUNT:
        return {}
    step = seconds_step(largest) if kind == SECONDS else bytes_step(largest)
    return {"interval": step, "max": step * max(math.ceil(largest / step), 1)}


def tooltip(formatter: str) -> dict[str, Any]:
    """Return a tooltip in the colours of the theme. ``formatter``: expression of a function that escapes names."""
    return {
        "trigger": "axis",
        "confine": True,
        ":formatter": formatter,
        ":backgroundColor": color("surface"),
        ":borderColor": color("line"),
        "textStyle": {":color": color("text"), "fontSize": 12.5},
        "axisPointer": {"lineStyle": {":color": color("line-strong")}},
    }


def line_series(number: int, line: Line, points: Points, **more: Any) -> dict[str, Any]:
    """Return the series of a curve; gaps stay gaps."""
    name = COLORS[number % len(COLORS)]
    return {
        "id": f"line-{number}",
        "type": "line",
        "name": line.name,
        "showSymbol": False,
        "connectNulls": False,
        "lineStyle": {"width": 1.8, ":color": color(name)},
        "itemStyle": {":color": color(name)},
        "areaStyle": {":color": color(name), "opacity": 0.07} if number == 0 else None,
        "emphasis": {"disabled": True},
        "data": [list(point) for point in points],
        **more,
    }


def mark_series(marks: Sequence[Mark], **more: Any) -> dict[str, Any]:
    """Return the series that has nothing but vertical lines, one for each mark."""
    return {
        "id": "marks",
        "type": "scatter",
        "data": [],
        "markLine": {
            "symbol": ["none", "none"],
            "silent": False,
            "label": {"show": False},
            "tooltip": {"show": True, "trigger": "item", ":formatter": "muster.markTip"},
            "data": mark_data(marks),
        },
        **more,
    }


def mark_data(marks: Sequence[Mark]) -> list[dict[str, Any]]:
    """Return the vertical lines: faults solid, ends of actors dashed, rebalances dotted."""
    return [
        {
            "xAxis": mark.at_ms,
            "text": text.shortened(mark.text, 120),
            "lineStyle": {
                "type": "solid" if mark.kind == FAULT else "dashed" if mark.kind == ACTOR else "dotted",
                ":color": color("bad" if mark.kind in (FAULT, ACTOR) else "warn"),
                "width": 1.5 if mark.kind == FAULT else 1,
                "opacity": 0.85,
            },
        }
        for mark in marks[-MAX_MARKS:]
    ]


def time_chart(
    view: View,
    label: str,
    lines: Sequence[Line],
    kind: str,
    *,
    marks: Callable[[], Sequence[Mark]] = tuple,
    height: int = 190,
    span_ms: int = HOUR_MS,
    is_bar: bool = False,
) -> None:
    """Draw curves of the last hour, which grow with each round."""
    now_ms = view.now.at_ms
    since_ms = now_ms - span_ms
    found = [line.points(since_ms) for line in lines]
    first_ms = min((points[0][0] for points in found if points), default=None)
    last_ms = max((points[-1][0] for points in found if points), default=0)
    shown_marks = list(marks())
    largest = max((value for points in found for _, value in points if value is not None), default=0.0)
    options: dict[str, Any] = {
        "animation": False,
        "grid": {"left": 8, "right": 26, "top": 30 if len(lines) > 1 else 12, "bottom": 4, "containLabel": True},
        "xAxis": time_axis(now_ms, first_ms, span_ms, **({"max": None} if is_bar else {})),
        "yAxis": value_axis(
            kind,
            **({"minInterval": 1} if is_bar else {}),
            **scale(kind, largest),
        ),
        "tooltip": tooltip(f"muster.tooltip({json.dumps(kind)})"),
        "series": [*_series(lines, found, is_bar), mark_series(shown_marks)],
    }
    if len(lines) > 1:
        legend = {"top": 0, "left": 0, "icon": "roundRect", "itemWidth": 12, "itemHeight": 4}
        options["legend"] = {**legend, "textStyle": {":color": color("muted")}, "data": [line.name for line in lines]}
    with ui.element("figure").classes("chart").style("margin:0;min-width:0"):
        chart = ui.echart(options).style(f"height:{height}px;width:100%").props('role="img"')
        chart.props["aria-label"] = label
        words = text_element("figcaption", in_words(label, lines, found, kind, shown_marks), "visually-hidden")

    scaled = {0: kind} if kind != COUNT else {}

    def update() -> None:
        nonlocal last_ms, shown_marks
        rows: dict[int, list[float | None]] = {}
        for index, line in enumerate(lines):
            for at_ms, value in line.points(view.now.at_ms - span_ms if is_bar else last_ms):
                rows.setdefault(at_ms, [None] * len(lines))[index] = value
        if not rows or not view.now.at_ms:
            return
        last_ms = max(rows)
        from_ms = view.now.at_ms - span_ms
        pushed = [[at_ms, *values] for at_ms, values in sorted(rows.items())]
        ui.run_javascript(f"muster.push({chart.id}, {json.dumps(pushed)}, {from_ms}, {json.dumps(scaled)})")
        if (current := list(marks())) != shown_marks:
            shown_marks = current
            ui.run_javascript(f"muster.marks({chart.id}, {marks_script(mark_data(current))})")
            words.text = in_words(label, lines, [line.points(from_ms) for line in lines], kind, current)

    view.on_change(update)


def _series(lines: Sequence[Line], found: Sequence[Points], is_bar: bool) -> list[dict[str, Any]]:
    if not is_bar:
        return [
            line_series(number, line, points) for number, (line, points) in enumerate(zip(lines, found, strict=True))
        ]
    return [
        {
            "id": f"line-{number}",
            "type": "bar",
            "name": line.name,
            "barMaxWidth": 10,
            "itemStyle": {":color": color(COLORS[number]), "borderRadius": [2, 2, 0, 0]},
            "data": [list(point) for point in points],
        }
        for number, (line, points) in enumerate(zip(lines, found, strict=True))
    ]


def marks_script(marks: list[dict[str, Any]]) -> str:
    """Return marks as JavaScript: JSON, with the colours as expressions."""
    parts = []
    for mark in marks:
        style = dict(mark["lineStyle"])
        expression = style.pop(":color")
        rest = json.dumps({**mark, "lineStyle": None})
        parts.append(
            f"Object.assign({rest}, {{lineStyle: Object.assign({json.dumps(style)}, {{color: {expression}}})}})"
        )
    return f"[{', '.join(parts)}]"


def in_words(label: str, lines: Sequence[Line], found: Sequence[Points], kind: str, marks: Sequence[Mark]) -> str:
    """Return the curves in sentences."""
    show = _TEXTS[kind]
    parts = []
    for line, points in zip(lines, found, strict=True):
        values = [value for _, value in points if value is not None]
        if values:
            parts.append(
                f"{line.name}: now {show(values[-1])}, at most {show(max(values))}, at least {show(min(values))}."
            )
        else:
            parts.append(f"{line.name}: nothing is known yet.")
    if marks:
        parts.append(f"{text.counted(len(marks), 'mark')}, the last: {marks[-1].text}.")
    return f"{label}. {' '.join(parts)}"
