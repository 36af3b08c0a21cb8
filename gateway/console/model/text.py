"""Numbers, sizes, durations and lists as short texts for people."""

from __future__ import annotations

from collections.abc import Sequence

UNKNOWN = "\u2013"
"""Text of a value that is not known."""
_THOUSANDS = ("", "k", "M", "G", "T", "P")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


def count(value: float | None) -> str:
    """Return a whole number with thin spaces between thousands, as ``12 345``."""
    return UNKNOWN if value is None else f"{round(value):,}".replace(",", "\u202f")


def decimal(value: float | None) -> str:
    """Return a number with at most three decimals."""
    return UNKNOWN if value is None else f"{value:,.3f}".rstrip("0").rstrip(".").replace(",", "\u202f")


def short_count(value: float | None) -> str:
    """Return at most three digits and a suffix: ``950``, ``12.3k``, ``4.06M``."""
    if value is None:
        return UNKNOWN
    return _scaled(value, 1000, _THOUSANDS, "")


def size(value: float | None) -> str:
    """Return bytes in binary units: ``512 B``, ``1.5 MiB``."""
    if value is None:
        return UNKNOWN
    return _scaled(value, 1024, _BINARY, "\u00a0")


def rate(value: float | None) -> str:
    """Return bytes per second: ``1.5 MiB/s``."""
    return UNKNOWN if value is None else f"{size(value)}/s"


def _scaled(value: float, base: int, units: Sequence[str], gap: str) -> str:
    left, index = float(value), 0
    while abs(left) >= base * 0.9995 and index < len(units) - 1:
        left /= base
        index += 1
    digits = (
        f"{left:.0f}" if index == 0 or abs(left) >= 99.95 else f"{left:.1f}" if abs(left) >= 9.995 else f"{left:.2f}"
    )
    if "." in digits and not gap:
        digits = digits.rstrip("0").rstrip(".")
    return f"{digits}{gap}{units[index]}" if units[index] else digits


def duration(seconds: float | None) -> str:
    """Return a duration with one or two units: ``40 ms``, ``3.2 s``, ``5 min 10 s``, ``3 h 5 min``, ``2 d 4 h``."""
    if seconds is None:
        return UNKNOWN
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}\u00a0ms"
    if seconds < 9.95:
        return f"{seconds:.1f}\u00a0s"
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{whole}\u00a0s"
    for unit_s, unit, part_s, part in ((_DAY_S, "d", _HOUR_S, "h"), (_HOUR_S, "h", _MINUTE_S, "min")):
        if whole >= unit_s:
            return _two(whole // unit_s, unit, whole % unit_s // part_s, part)
    return _two(whole // _MINUTE_S, "min", whole % _MINUTE_S, "s")


def _two(large: int, unit: str, small: int, part: str) -> str:
    return f"{large}\u00a0{unit} {small}\u00a0{part}" if small else f"{large}\u00a0{unit}"


def duration_ms(milliseconds: float | None) -> str:
    """Return a duration given in ms."""
    return UNKNOWN if milliseconds is None else duration(milliseconds / 1000)


def share(value: float | None) -> str:
    """Return a fraction as percent: ``0 %``, ``0.4 %``, ``12 %``; above nothing never ``0 %``."""
    if value is None:
        return UNKNOWN
    percent = value * 100
    if percent <= 0:
        return "0\u00a0%"
    if percent < 0.1:
        return "<\u202f0.1\u00a0%"
    return f"{percent:.1f}\u00a0%" if percent < 9.95 else f"{percent:.0f}\u00a0%"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return ``1 group``, ``12 groups``."""
    return f"{count(number)} {noun if number == 1 else plural or noun + 's'}"


def listed(names: Sequence[str], limit: int = 3) -> str:
    """Return ``a, b and c``, or ``a, b, c and 4 more`` beyond the limit."""
    if len(names) > limit:
        return f"{', '.join(names[:limit])} and {len(names) - limit} more"
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def shortened(text: str, length: int = 60) -> str:
    """Return the text on one line, cut in its middle beyond the length: both ends of an id matter."""
    line = " ".join(text.split()) if text.strip() else text
    if len(line) <= length:
        return line
    head = (length - 1) * 2 // 3
    return f"{line[:head]}…{line[len(line) - (length - 1 - head) :]}"


def ranges(numbers: Sequence[int]) -> str:
    """Return sorted numbers as ranges: ``0-3, 7``."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}\u2013{last}" for first, last in parts)
