"""Option types for times and sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE | re.ASCII)
_ISO_DURATION = re.compile(
    r"P(?=.)(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?=.)(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:[.,]\d+)?)S)?)?",
    re.IGNORECASE | re.ASCII,
)
_SHORT_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+", re.ASCII)
_SHORT_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_MAX_DURATION_CHARS = 100
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def duration_ms(text: str) -> int:
    """Parse an ISO 8601 duration of weeks, days, hours, minutes and seconds (P1DT12H), or one such as 1h30m or 90s."""
    text = text.strip()
    if len(text) <= _MAX_DURATION_CHARS:
        if match := _ISO_DURATION.fullmatch(text):
            parts = [(value.replace(",", "."), unit) for unit, value in match.groupdict().items() if value]
            return _total_ms(parts)
        if _SHORT_DURATION.fullmatch(text.lower()):
            return _total_ms(_SHORT_PART.findall(text.lower()))
    raise ValueError(
        f"{text[:_MAX_DURATION_CHARS]!r} is not a duration such as PT1H30M, P7D, 1h30m or 90s (no months or years)"
    )


def _total_ms(parts: Iterable[tuple[str, str]]) -> int:
    return int(sum(Fraction(value) * _UNIT_MS[unit] for value, unit in parts))


def utc(at_ms: int, *, millis: bool = False, narrow: bool = False) -> str:
    """Format a time for a table, whose column says that it is UTC: ``2026-11-29 11:20:40``, also with milliseconds.

    ``narrow`` leaves out the year and the milliseconds.
    """
    at = _EPOCH + timedelta(milliseconds=at_ms)
    if narrow:
        return f"{at:%m-%d %H:%M:%S}"
    return f"{at:%Y-%m-%d %H:%M:%S.%f}"[:-3] if millis else f"{at:%Y-%m-%d %H:%M:%S}"


def moment(text: str, now: datetime) -> datetime:
    """Parse an ISO 8601 date or time (UTC if it names no zone), ``now``, or a duration back from ``now``: -1h, -PT90M.

    ``now`` and the result are aware. Raises ValueError with the problem.
    """
    text = text.strip()
    if text == "now":
        return now
    try:
        if text.startswith("-"):
            return now - timedelta(milliseconds=duration_ms(text[1:]))
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is neither an ISO 8601 time such as 2026-01-31T09:30:00+01:00 nor a duration back from now "
            "such as -1h or -7d"
        ) from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).astimezone(UTC)


if TYPE_CHECKING:
    _AnyType = click.ParamType[Any]
else:  # generic since click 8.4 only
    _AnyType = click.ParamType


class Moment(_AnyType):
    """Time as for :func:`moment`, relative to the start of the command."""

    name = "time"

    def __init__(self) -> None:
        self._now = datetime.now(UTC)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return moment(value, self._now)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Size(_AnyType):
    """Bytes, with an optional unit: 512m, 1.5g, 2GiB; all in powers of 1024."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(value.strip())
        if not match:
            self.fail(f"{value!r} is not a size such as 512m or 2g", param, ctx)
        return int(float(match[1]) * _UNITS[match[2].lower()])


class Zone(_AnyType):
    """The IANA name of a time zone."""

    name = "zone"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            self.fail(f"{value!r} is not a time zone such as Europe/Berlin", param, ctx)
        return str(value)
