"""The report's plots: SVG to be inlined, coloured by the page's CSS variables, so that light and dark both work."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from html import escape
from io import StringIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

_INK, _FAINT, _MARK = "#010101", "#020202", "#030303"
_SERIES = ("#040404", "#050505", "#060606", "#070707", "#080808")
_VARIABLES = {_INK: "--ink", _FAINT: "--rule", _MARK: "--mark"} | {
    colour: f"--series-{number}" for number, colour in enumerate(_SERIES, start=1)
}
_FEW_POINTS = 3
_DASHES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (7, 2, 1.5, 2)), "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened once, to be marked on a time axis."""

    at_s: float
    label: str


@dataclass(frozen=True, slots=True)
class _Style:
    colour: str
    dashes: Any


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]],
    events: Sequence[Event],
    *,
    names: Sequence[str],
    label: str,
    y_label: str,
    steps: bool,
) -> str:
    """Curves over seconds since the start.

    ``label`` says in words what is to be seen, for who cannot see it. ``names`` gives each name its colour, by its
    place, so that it is the same in all plots; a name that is not in it is grey.
    """
    figure, axes = _figure(height=3.4)
    drawstyle: Any = "steps-post" if steps else "default"
    for name, points in series.items():
        style = _style(name, names)
        x, y = [point[0] for point in points], [point[1] for point in points]
        axes.plot(x, y, color=style.colour, linestyle=style.dashes, linewidth=2, label=name, drawstyle=drawstyle)
    axes.set_ylim(0, axes.get_ylim()[1] * (1.05 + 0.09 * len(events)))  # room for the events' labels
    axes.set_xlim(left=min((point[0] for points in series.values() for point in points), default=0) // 10 * 10)
    axes.set_xlabel("seconds since the start")
    _count_up(axes, y_label)
    _mark(axes, events)
    _legend(axes, len(series))
    return _svg(figure, label)


def time_lines(
    series: Mapping[str, Sequence[tuple[datetime, float | None]]],
    *,
    names: Sequence[str],
    label: str,
    y_label: str,
    zone: tzinfo,
) -> str:
    """Curves over time, in order; None is a gap, and a point between two gaps a dot. The rest as in :func:`lines`."""
    figure, axes = _figure(height=3.0)
    for name, points in series.items():
        style = _style(name, names)
        x: Any = [point[0] for point in points]
        y: Any = [float("nan") if point[1] is None else point[1] for point in points]
        dots = "o" if len(points) < _FEW_POINTS else ""
        axes.plot(x, y, color=style.colour, linestyle=style.dashes, linewidth=2, label=name, marker=dots, markersize=4)
    low, high = axes.get_ylim()
    axes.set_ylim(min(0.0, low), max(high * 1.05, 1e-9))
    locator = AutoDateLocator(tz=zone, minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))  # type: ignore[no-untyped-call]
    axes.xaxis.get_offset_text().set_color(_INK)
    _count_up(axes, y_label, integer=False)
    _legend(axes, len(series))
    return _svg(figure, label)


def _count_up(axes: Axes, y_label: str, *, integer: bool = True) -> None:
    axes.set_ylabel(y_label)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=integer))
    axes.yaxis.set_major_formatter(FuncFormatter(_short))


def stacked_bars(bars: Mapping[str, Mapping[str, float]], *, names: Sequence[str], label: str, x_label: str) -> str:
    """One horizontal bar per key of ``bars``, top down, made of its parts; ``names`` as in :func:`lines`."""
    figure, axes = _figure(height=0.9 + 0.34 * max(len(bars), 1))
    rows = list(bars)
    parts = sorted({part for bar in bars.values() for part in bar}, key=lambda part: (_place(part, names), part))
    left = [0.0] * len(rows)
    for part in parts:
        widths = [bars[row].get(part, 0.0) for row in rows]
        axes.barh(rows, widths, left=left, height=0.66, color=_style(part, names).colour, edgecolor="none", label=part)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(x_label)
    axes.xaxis.set_major_formatter(FuncFormatter(_short))
    _legend(axes, len(parts))
    return _svg(figure, label)


def _style(name: str, names: Sequence[str]) -> _Style:
    place = _place(name, names)
    return _Style(_SERIES[place], _DASHES[place])


def _place(name: str, names: Sequence[str]) -> int:
    grey = len(_SERIES) - 1
    return names.index(name) % grey if name in names else grey


def _figure(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8.4, height), layout="constrained")
    axes = figure.add_subplot()
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_INK)
    axes.tick_params(colors=_INK, length=0)
    axes.xaxis.label.set_color(_INK)
    axes.yaxis.label.set_color(_INK)
    axes.grid(visible=True, color=_FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def _mark(axes: Axes, events: Sequence[Event]) -> None:
    """A line for each event, its label above the curves: the first to the left of its line, so that none overlap."""
    for number, event in enumerate(sorted(events, key=lambda event: event.at_s)):
        axes.axvline(event.at_s, color=_MARK, linewidth=1.4, linestyle=(0, (3, 2)))
        axes.annotate(
            event.label,
            (event.at_s, 1.0 - 0.075 * max(0, number - 1)),
            xycoords=("data", "axes fraction"),
            xytext=(4 if number else -4, -2),
            textcoords="offset points",
            va="top",
            ha="left" if number else "right",
            color=_MARK,
            fontsize=9,
        )


def _legend(axes: Axes, columns: int) -> None:
    if columns:
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1.0),
            ncols=min(columns, 4),
            frameon=False,
            labelcolor=_INK,
            borderpad=0,
        )


def _short(value: float, _position: object) -> str:
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"


_figures = iter(range(1, 1_000_000))


def _svg(figure: Figure, label: str) -> str:
    out = StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "muster"}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    prefix = f"plot{next(_figures)}-"  # ids are unique in the page, not only in the picture
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}", svg)
    svg = re.sub(r'<svg ([^>]*?)\s*width="[^"]*"', r"<svg \1", svg, count=1)
    svg = re.sub(r'(<svg [^>]*?)\s*height="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(label, quote=True)}" ', 1)
