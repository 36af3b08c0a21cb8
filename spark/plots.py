"""The report's plots: SVG to be inlined, coloured by the page's CSS variables, so that light and dark both work."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
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
_DASHES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (7, 2, 1.5, 2)), "-")
_LONGEST_NAME = 36
_LEGEND_LETTERS = 84
"""In a row of the legend, as wide as a letter is on average."""
_AROUND_ONE_MOMENT = timedelta(minutes=5)
_TAG = re.compile(r"<[^>]*>")
_names_as_they_are = mpl.rc_context({"text.parse_math": False})
"""A name may have dollar signs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened once, to be marked on a time axis."""

    at_s: float
    label: str


@dataclass(frozen=True, slots=True)
class _Style:
    colour: str
    dashes: Any


@_names_as_they_are
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
    handles: dict[str, Any] = {}
    for name, points in series.items():
        style = _style(name, names)
        x, y = [point[0] for point in points], [point[1] for point in points]
        (handles[name],) = axes.plot(x, y, color=style.colour, linestyle=style.dashes, linewidth=2, drawstyle=drawstyle)
    axes.set_ylim(0, axes.get_ylim()[1] * (1.05 + 0.09 * len(events)))  # room for the events' labels
    axes.set_xlim(left=min((point[0] for points in series.values() for point in points), default=0) // 10 * 10)
    axes.set_xlabel("seconds since the start")
    _count_up(axes, y_label)
    _mark(axes, events)
    _legend(axes, handles)
    return _svg(figure, label)


@_names_as_they_are
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
    handles: dict[str, Any] = {}
    for name, points in series.items():
        style = _style(name, names)
        x: Any = [point[0] for point in points]
        y: Any = [float("nan") if point[1] is None else point[1] for point in points]
        (handles[name],) = axes.plot(x, y, color=style.colour, linestyle=style.dashes, linewidth=2, clip_on=False)
        dots: Any = list(zip(*_alone(points), strict=True))
        if dots:
            axes.plot(*dots, color=style.colour, linestyle="none", marker="o", markersize=4)
    moments: Any = {point[0] for points in series.values() for point in points}
    if len(moments) == 1:
        axes.set_xlim(min(moments) - _AROUND_ONE_MOMENT, max(moments) + _AROUND_ONE_MOMENT)
    heights = [y for points in series.values() for _, y in points if y is not None]
    axes.set_ylim(min([0.0, *heights]), max([1e-9, *(1.1 * y for y in heights)]))
    locator = AutoDateLocator(tz=zone, minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))  # type: ignore[no-untyped-call]
    axes.xaxis.get_offset_text().set_color(_INK)
    _count_up(axes, y_label, integer=False)
    _legend(axes, handles)
    return _svg(figure, label)


def _alone(points: Sequence[tuple[datetime, float | None]]) -> list[tuple[datetime, float]]:
    """Points that no line leads to."""
    around = [None, *(y for _, y in points), None]
    return [
        (at, y)
        for (at, y), before, after in zip(points, around, around[2:], strict=False)
        if y is not None and before is None and after is None
    ]


def _count_up(axes: Axes, y_label: str, *, integer: bool = True) -> None:
    axes.set_ylabel(y_label)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=integer))
    axes.yaxis.set_major_formatter(FuncFormatter(_short))


@_names_as_they_are
def stacked_bars(bars: Mapping[str, Mapping[str, float]], *, names: Sequence[str], label: str, x_label: str) -> str:
    """One horizontal bar per key of ``bars``, top down, made of its parts; ``names`` as in :func:`lines`."""
    figure, axes = _figure(height=1.0 + 0.34 * max(len(bars), 1))
    rows = list(bars)
    parts = sorted({part for bar in bars.values() for part in bar}, key=lambda part: (_place(part, names), part))
    left = [0.0] * len(rows)
    places = range(len(rows))
    handles: dict[str, Any] = {}
    for part in parts:
        widths = [bars[row].get(part, 0.0) for row in rows]
        colour = _style(part, names).colour
        handles[part] = axes.barh(places, widths, left=left, height=0.66, color=colour, edgecolor="none")
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(places, [_brief(row) for row in rows])
    axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)  # the first at the top
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(x_label)
    axes.xaxis.set_major_formatter(FuncFormatter(_short))
    _legend(axes, handles)
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


def _legend(axes: Axes, handles: Mapping[str, Any]) -> None:
    """Of what is given, for by itself a legend leaves out names that begin with an underscore."""
    if handles:
        labels = [_brief(name) for name in handles]
        axes.legend(
            list(handles.values()),
            labels,
            loc="lower left",
            bbox_to_anchor=(0, 1.0),
            ncols=max(1, min(len(labels), 4, _LEGEND_LETTERS // (max(map(len, labels)) + 6))),
            frameon=False,
            labelcolor=_INK,
            borderpad=0,
        )


def _brief(name: str) -> str:
    """Its beginning and its end, in one line."""
    line = " ".join(name.split())
    half = (_LONGEST_NAME - 1) // 2
    return line if len(line) <= _LONGEST_NAME else f"{line[:half]}\N{HORIZONTAL ELLIPSIS}{line[-half:]}"


def _short(value: float, _position: object) -> str:
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"


_figures = iter(range(1, 1_000_000))


def _svg(figure: Figure, label: str) -> str:
    out = StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "muster"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # the browser has other fonts
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    prefix = f"plot{next(_figures)}-"  # ids are unique in the page, not only in the picture
    svg = _TAG.sub(lambda tag: _in_page(tag[0], prefix), svg)
    svg = re.sub(r'<svg ([^>]*?)\s*width="[^"]*"', r"<svg \1", svg, count=1)
    svg = re.sub(r'(<svg [^>]*?)\s*height="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(label, quote=True)}" ', 1)


def _in_page(tag: str, prefix: str) -> str:
    for colour, variable in _VARIABLES.items():
        tag = tag.replace(colour, f"var({variable})")
    tag = re.sub(r'\bid="', f'id="{prefix}', tag)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}", tag)
