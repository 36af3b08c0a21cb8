"""Steps of time, as columns: steps of a number of seconds, and the hours and days of a time zone.

A local day has 23 or 25 hours when the clocks change, and a repeated hour is two hours: elapsed time is counted, never
the wall clock. Nothing here depends on the session's time zone except :func:`local_label`, which requires it to be UTC
as :mod:`muster.spark.session` sets it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from zoneinfo import ZoneInfo

from pyspark.sql import Column
from pyspark.sql import functions as F

Unit = Literal["hour", "day"]

_HOUR_S = 3600
_DAY_S = 86_400
_WEEK_S = 7 * _DAY_S
_FIRST_S = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp())
_LAST_S = int(datetime(2038, 1, 1, tzinfo=UTC).timestamp())


@dataclass(frozen=True, slots=True)
class Step:
    """A step of time, as two timestamp columns."""

    start: Column
    end: Column
    """Exclusive."""


def step_of(moment: Column, seconds: int) -> Step:
    """Return the step of ``seconds`` that contains ``moment``, counted from the epoch. Raises ValueError for less than
    1 s."""
    if seconds < 1:
        raise ValueError("a bucket has at least one second")
    start = F.floor(F.unix_timestamp(moment) / seconds) * seconds
    return Step(F.timestamp_seconds(start), F.timestamp_seconds(start + seconds))


def local_step_of(moment: Column, unit: Unit, timezone: str) -> Step:
    """Return the hour or day of ``timezone`` (IANA name) that contains ``moment``.

    A day begins at the first moment of its date, which is 01:00 where the clocks skip midnight.
    """
    at = F.unix_timestamp(moment)
    local = F.unix_timestamp(F.from_utc_timestamp(moment, timezone))
    if unit == "hour":
        start = F.floor(local / _HOUR_S) * _HOUR_S - (local - at)
        return Step(F.timestamp_seconds(start), F.timestamp_seconds(start + _HOUR_S))
    midnight = F.floor(local / _DAY_S) * _DAY_S
    return Step(
        F.to_utc_timestamp(F.timestamp_seconds(midnight), timezone),
        F.to_utc_timestamp(F.timestamp_seconds(midnight + _DAY_S), timezone),
    )


def whole_step_s(timezone: str) -> int:
    """Return the widest step, in s, of which all hours and days of ``timezone`` consist: an hour or a part of it.

    Steps are counted from the epoch. By the zone's offsets and changes of the clocks from 2020 to 2037.
    """
    zone = ZoneInfo(timezone)

    def offset_s(at_s: int) -> int:
        offset = datetime.fromtimestamp(at_s, zone).utcoffset()
        return 0 if offset is None else int(offset.total_seconds())

    step_s = _HOUR_S
    for begin_s in range(_FIRST_S, _LAST_S, _WEEK_S):
        low_s, high_s = begin_s, begin_s + _WEEK_S
        step_s = math.gcd(step_s, offset_s(low_s))
        while offset_s(low_s) != offset_s(high_s):
            middle_s = (low_s + high_s) // 2
            if middle_s == low_s:
                step_s = math.gcd(step_s, high_s)
                break
            low_s, high_s = (low_s, middle_s) if offset_s(low_s) != offset_s(middle_s) else (middle_s, high_s)
    return step_s


def local_label(moment: Column, timezone: str) -> Column:
    """Format a step as a clock in ``timezone`` shows it: ``2026-10-25 02:00 +01:00``, with the offset that makes it
    unique."""
    local = F.from_utc_timestamp(moment, timezone)
    offset_s = F.unix_timestamp(local) - F.unix_timestamp(moment)
    sign = F.when(offset_s < 0, "-").otherwise("+")
    minutes = F.floor(F.abs(offset_s) / 60)
    offset = F.format_string("%s%02d:%02d", sign, F.floor(minutes / 60), minutes % 60)
    return F.concat_ws(" ", F.date_format(local, "yyyy-MM-dd HH:mm"), offset)
