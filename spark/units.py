"""Values for users, in the unit that their column's name implies, and round steps of axes. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any

from muster.spark.render.showing import cell

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB")
_SECONDS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_THOUSANDS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_ROUND = (1, 2, 2.5, 5, 10)
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400
_TIME_STEPS_S = (
    *(1, 2, 5, 10, 15, 30),
    *(_MINUTE_S * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(_HOUR_S * hours for hours in (1, 2, 3, 6, 12)),
    *(_DAY_S * days for days in (1, 2, 5, 10, 30, 60, 180, 365)),
)
_MAX_TIMES = 8
_ABOUT = 4
"""Number of values on an axis, or half as many more or less."""


def cell_in(value: Any, column: str) -> str:
    """Format a value for users, in the unit that its column's name implies: bytes, seconds, a share."""
    if value is None or isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return cell(value)
    number = float(value)
    if column.endswith("bytes_per_second"):
        return f"{_sized(number)}/s"
    if column.endswith("bytes"):
        return _sized(number)
    if column.endswith("seconds") and not column.endswith("partition_seconds"):
        return lasting(number)
    if column.endswith("share"):
        return f"{number:.1%}"
    if column.endswith("percent"):
        return f"{number:.1f}%"
    return cell(round(number, 2)) if isinstance(value, float) and abs(number) >= 1 else cell(value)


def lasting(seconds: float) -> str:
    """Format a duration: ``1 h 2 min``, ``18.7 s``, ``0.254 s``."""
    if abs(seconds) < _MINUTE_S:
        return f"{cell(round(seconds, 3 if abs(seconds) < 1 else 1))} s"
    whole = round(abs(seconds))
    if whole < _HOUR_S:
        text = f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    elif whole < _DAY_S:
        text = f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
    else:
        text = f"{whole // _DAY_S} d {whole % _DAY_S // _HOUR_S} h"
    return f"-{text}" if seconds < 0 else text


def _sized(size_bytes: float) -> str:
    for unit in _BYTES[:-1]:
        if abs(size_bytes) < 1024:
            return f"{size_bytes:,.0f} B" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:,.1f} {_BYTES[-1]}"


def number_ticks(low: float, high: float, column: str, *, whole: bool = False) -> list[tuple[float, str]]:
    """Return round values from ``low`` to ``high`` (more than ``low``) with their labels; ``whole``: no fractions."""
    scale, suffix = _scale(max(abs(low), abs(high)), column)
    step = _round_step((high - low) / scale / _ABOUT)
    if whole:
        step = max(step, 1 / scale)
    first = math.ceil(low / scale / step - 1e-9)
    last = math.floor(high / scale / step + 1e-9)
    return [(place * step * scale, f"{place * step:g}{suffix}" if place else "0") for place in range(first, last + 1)]


def _scale(largest: float, column: str) -> tuple[float, str]:
    """Return the divisor of a tick, and the unit to append."""
    if column.endswith("share"):
        return 0.01, "%"
    if column.endswith("percent"):
        return 1, "%"
    if column.endswith(("bytes", "bytes_per_second")):
        power = min(int(math.log(largest, 1024)), len(_BYTES) - 1) if largest >= 1 else 0
        return 1024.0**power, f" {_BYTES[power]}" + ("/s" if column.endswith("per_second") else "")
    if column.endswith("seconds") and not column.endswith("partition_seconds"):
        return next(((size, f" {unit}") for size, unit in _SECONDS if largest >= 2 * size), (1, " s"))
    return next(((size, suffix) for size, suffix in _THOUSANDS if largest >= 2 * size), (1, ""))


def _round_step(least: float) -> float:
    """Return 1, 2, 2.5 or 5 of some power of ten."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * digit for digit in _ROUND if power * digit >= least * (1 - 1e-9))


def time_ticks(first: datetime, last: datetime, zone: tzinfo) -> list[tuple[datetime, str, str]]:
    """Return round moments (UTC) of that zone's clocks from ``first`` to ``last``, with labels: the time, or for steps
    of days the date, and below it the date, or year, if it differs from that of the previous moment."""
    span_s = (last - first).total_seconds()
    step_s = next((step for step in _TIME_STEPS_S if span_s / step <= _MAX_TIMES), _TIME_STEPS_S[-1])
    moments = _round_moments(first.timestamp(), last.timestamp(), step_s, zone)
    return _labelled([moment.astimezone(zone) for moment in moments], step_s)


def _round_moments(first_s: float, last_s: float, step_s: int, zone: tzinfo) -> list[datetime]:
    """Return moments at whole steps since local midnight, even if clocks were set forward or back in between."""
    found: list[datetime] = []
    at_s = float(math.ceil(first_s))
    while at_s <= last_s:
        moment = datetime.fromtimestamp(at_s, UTC)
        offset = moment.astimezone(zone).utcoffset() or timedelta(0)
        past_s = (at_s + offset.total_seconds()) % step_s
        rest_s = step_s - past_s  # until the next one, plus or minus the hour by which clocks are set
        if past_s == 0:
            found.append(moment)
            at_s += rest_s if step_s <= _HOUR_S else rest_s - _HOUR_S
        else:
            at_s += min(rest_s, _HOUR_S)
    return found


def _labelled(moments: Sequence[datetime], step_s: int) -> list[tuple[datetime, str, str]]:
    above, below = ("%m-%d", "%Y") if step_s >= _DAY_S else ("%H:%M" if step_s >= _MINUTE_S else "%H:%M:%S", "%Y-%m-%d")
    said, before = [], ""
    for moment in moments:
        under = moment.strftime(below)
        said.append((moment.astimezone(UTC), moment.strftime(above), under if under != before else ""))
        before = under
    return said
