"""Plots as HTML: curves in an SVG that fits any width, with all labels around them as text of the page.

So names use the reader's fonts in any script, text is as large as the rest of the page, and colours are the page's CSS
variables, so that light and dark both work. The styles are in ``templates/base.html.j2``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from html import escape

from muster.spark.units import cell_in, number_ticks, time_ticks

Curve = Sequence[tuple[float, float | None]]
SERIES = 4
"""Number of colours; further series are grey."""

_DASHES = ("", "9 4", "3 2.5", "11 3 2.5 3", "")
_SIDE = 1000.0
"""Side of the square that is stretched to the size of the plot."""
_AROUND_ONE_MOMENT_S = 300
_ROOM, _ROOM_FOR_A_LABEL = 1.06, 0.1
"""Room above the highest curve, relative to its height; more for each event."""
_NEVER_BELOW = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A single event to be marked on a time axis."""

    at_s: float
    label: str


@dataclass(frozen=True, slots=True)
class _Span:
    """Range of an axis."""

    first: float
    last: float

    def share(self, value: float) -> float:
        """Return 0 at the beginning, 1 at the end."""
        return (value - self.first) / (self.last - self.first)


def lines(
    series: Mapping[str, Curve],
    events: Sequence[Event],
    *,
    names: Sequence[str],
    label: str,
    y: str,
    y_label: str,
    steps: bool,
    across: tuple[float, float] | None = None,
) -> str:
    """Draw curves over seconds since the start, with ``events``; a curve in ``steps`` keeps its value up to the next
    point.

    ``across`` is the range of the time axis, for plots that share it; without it, that of the curves.
    ``label`` describes the plot in words, for readers who cannot see it. ``names`` gives each name its colour, by its
    place, so that it is the same in all plots; a name that is not in it is grey. ``y`` is the name of a column: its
    suffix is the unit of the values.
    """
    moments = [at_s for curve in series.values() for at_s, _ in curve]
    first_s, last_s = across or (min(moments, default=0.0), max(moments, default=1.0) + (len(set(moments)) <= 1))
    ticks = [(value, text, "") for value, text in number_ticks(first_s, last_s, "seconds")]
    drawn = {name: _stepped(curve) if steps else curve for name, curve in series.items()}
    span = _Span(first_s, last_s)
    return _chart(drawn, span, ticks, names=names, label=label, y=y, y_label=y_label, events=events)


def time_lines(
    series: Mapping[str, Sequence[tuple[datetime, float | None]]],
    *,
    names: Sequence[str],
    label: str,
    y: str,
    y_label: str,
    zone: tzinfo,
) -> str:
    """Draw curves over time, in order; None is a gap, and a point between two gaps a dot. The rest as in
    :func:`lines`."""
    curves = {name: [(at.timestamp(), height) for at, height in curve] for name, curve in series.items()}
    moments = [at_s for curve in curves.values() for at_s, _ in curve]
    first_s, last_s = min(moments, default=0.0), max(moments, default=0.0)
    if first_s == last_s:
        first_s, last_s = first_s - _AROUND_ONE_MOMENT_S, last_s + _AROUND_ONE_MOMENT_S
    found = time_ticks(datetime.fromtimestamp(first_s, UTC), datetime.fromtimestamp(last_s, UTC), zone)
    ticks = [(at.timestamp(), above, below) for at, above, below in found]
    return _chart(curves, _Span(first_s, last_s), ticks, names=names, label=label, y=y, y_label=y_label, events=())


def stacked_bars(
    bars: Mapping[str, Mapping[str, float]],
    *,
    names: Sequence[str],
    label: str,
    x: str,
    x_label: str,
    absent: str = "-",
) -> str:
    """Draw one horizontal bar per key of ``bars``, top down, made of its parts; ``absent`` is the text of one without
    parts. The rest as in :func:`lines`, with ``x`` for ``y``."""
    longest = max((sum(bar.values()) for bar in bars.values()), default=0.0) or 1.0
    parts = sorted({part for bar in bars.values() for part in bar}, key=lambda part: (_place(part, names), part))
    rows = []
    for name, bar in bars.items():
        drawn = "".join(
            f'<i class="s{_place(part, names) + 1}" style="width:{100 * bar[part] / longest:.3f}%"></i>'
            for part in parts
            if bar.get(part)
        )
        whole = _text(name)
        rows.append(
            f'<div class="bar"><bdi class="name" title="{whole}">{whole}</bdi><span class="track">{drawn}</span>'
            f'<span class="n">{escape(cell_in(sum(bar.values()), x) if bar else absent)}</span></div>'
        )
    legend = _legend(parts, names, x_label, lined=False)
    return f'<figure role="img" aria-label="{escape(label)}">{legend}<div class="bars">{"".join(rows)}</div></figure>'


def _chart(
    curves: Mapping[str, Curve],
    across: _Span,
    x_ticks: Sequence[tuple[float, str, str]],
    *,
    names: Sequence[str],
    label: str,
    y: str,
    y_label: str,
    events: Sequence[Event],
) -> str:
    heights = [height for curve in curves.values() for _, height in curve if height is not None]
    low, high = min([0.0, *heights]), max([0.0, *heights])
    whole = all(height == int(height) for height in heights)
    room = _ROOM + _ROOM_FOR_A_LABEL * len(events)
    up = _Span(low, max(high * room, low + _NEVER_BELOW))
    y_ticks = number_ticks(up.first, up.last, y, whole=whole) if high > low else [(0.0, "0")]
    rules = "".join(f'<path class="rule" d="M0 {_down(up, value)}H1000"/>' for value, _ in y_ticks)
    paths = "".join(_path(curve, across, up, _place(name, names)) for name, curve in curves.items())
    return (
        f'<figure role="img" aria-label="{escape(label)}">{_legend(list(curves), names, y_label, lined=True)}'
        f'<div class="chart"><div class="y">{_y_labels(y_ticks, up)}</div>'
        f'<div class="area"><svg viewBox="0 0 1000 1000" preserveAspectRatio="none" aria-hidden="true">'
        f"{rules}{paths}</svg>{_marks(events, across)}</div>"
        f'<div class="x">{_x_labels(x_ticks, across)}</div></div></figure>'
    )


def _path(curve: Curve, across: _Span, up: _Span, place: int) -> str:
    """Draw lines between successive points; a single point is a line without length, whose ends are round."""
    steps, before = [], False
    for x, height in curve:
        if height is None:
            before = False
            continue
        steps.append(f"{'L' if before else 'M'}{_SIDE * across.share(x):.1f} {_down(up, height)}")
        before = True
    lone = "".join(f"{step}h0" for step in _alone(steps))
    d = "".join(steps)
    dashes = f' stroke-dasharray="{_DASHES[place]}"' if _DASHES[place] else ""
    dots = f'<path class="s{place + 1} dot" d="{lone}"/>' if lone else ""
    return f'<path class="s{place + 1}" d="{d}"{dashes}/>{dots}' if d else ""


def _alone(steps: Sequence[str]) -> list[str]:
    """Return points without a line to them."""
    after = [*steps[1:], "M"]
    return [step for step, following in zip(steps, after, strict=False) if step[0] == following[0] == "M"]


def _stepped(curve: Curve) -> Curve:
    found: list[tuple[float, float | None]] = []
    for at_s, height in curve:
        if found:
            found.append((at_s, found[-1][1]))
        found.append((at_s, height))
    return found


def _down(up: _Span, height: float) -> str:
    """Convert to an SVG's coordinate: its y grows downwards."""
    return f"{_SIDE * (1 - up.share(height)):.1f}"


def _y_labels(ticks: Sequence[tuple[float, str]], up: _Span) -> str:
    return "".join(f'<span style="bottom:{100 * up.share(value):.2f}%">{escape(text)}</span>' for value, text in ticks)


def _x_labels(ticks: Sequence[tuple[float, str, str]], across: _Span) -> str:
    return "".join(
        f'<span style="left:{100 * across.share(at):.2f}%">{escape(above)}<br>{escape(below)}</span>'
        for at, above, below in ticks
    )


def _marks(events: Sequence[Event], across: _Span) -> str:
    """Draw a line for each event with a label beside it: on the left if the line is far to the right."""
    said = []
    for number, event in enumerate(sorted(events, key=lambda event: event.at_s)):
        share = across.share(event.at_s)
        side = " left" if share > 0.7 else ""
        said.append(
            f'<span class="mark{side}" style="left:{100 * share:.2f}%"><b style="top:{1.2 * number:.1f}em">'
            f"{_text(event.label)}</b></span>"
        )
    return "".join(said)


def _legend(drawn: Sequence[str], names: Sequence[str], quantity: str, *, lined: bool) -> str:
    """Return the quantity of the axis, and the colour of each curve; not if the only curve is that quantity."""
    keys = []
    for name in drawn if list(drawn) != [quantity] else []:
        place = _place(name, names)
        dashes = f' stroke-dasharray="{_DASHES[place]}"' if lined and _DASHES[place] else ""
        thick = "" if lined else " thick"
        keys.append(
            f'<li><svg class="key{thick}" viewBox="0 0 28 10" aria-hidden="true"><path class="s{place + 1}" '
            f'd="M1 5H27"{dashes}/></svg><bdi title="{_text(name)}">{_text(name)}</bdi></li>'
        )
    return f'<div class="legend"><span class="soft">{escape(quantity)}</span><ul>{"".join(keys)}</ul></div>'


def _text(name: str) -> str:
    return escape(name) or "&nbsp;"


def _place(name: str, names: Sequence[str]) -> int:
    return names.index(name) % SERIES if name in names else SERIES
