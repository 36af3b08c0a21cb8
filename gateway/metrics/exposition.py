"""The one writer of /metrics: Prometheus' text format 0.0.4, and OpenMetrics 1.0.

prometheus_client's own writer takes several times as long and holds each sample as an object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from muster.gateway.metrics.families import Family


class Exposition:
    """The text of one scrape of one gateway. Families are begun before their series are added, in any order."""

    def __init__(self, gateway: int, *, openmetrics: bool, hide: Callable[[str], str] | None = None) -> None:
        """``hide`` changes the labels of a series; series that become one are summed up, if not said otherwise."""
        self._first = f'gateway="{gateway}"'
        self._openmetrics = openmetrics
        self._hide = hide
        self._families: dict[str, tuple[str, list[str]]] = {}
        self._sums: dict[str, dict[str, float]] = {}
        """By family and series, if names are hidden."""

    def begin(self, families: Iterable[Family], first: str | None = None) -> None:
        """Expose these families, with or without series. ``first`` is their first label, if it is not ``gateway``."""
        for family in families:
            self._families[family.name] = (first or self._first, [self._head(family)])

    def add(self, name: str, labels: str, value: float, *, suffix: str = "", is_largest: bool = False) -> None:
        """Add a series of that family; ``labels`` as returned by :func:`labels`: all but the first.

        ``is_largest``: of series that become one, the largest is exposed instead of the sum.
        """
        first, lines = self._families[name]
        if self._hide is None:
            lines.append(f"{name}{suffix}{{{first}{labels}}} {value}\n")
            return
        series = f"{name}{suffix}{{{first}{self._hide(labels)}}}"
        sums = self._sums.setdefault(name, {})
        if series not in sums:
            sums[series] = value
        else:
            sums[series] = max(sums[series], value) if is_largest else sums[series] + value

    def created(self, name: str, labels: str, since_ms: int) -> None:
        """Write when the counter that was just added began at 0. Only OpenMetrics has a place for it."""
        if self._openmetrics and self._hide is None:
            first, lines = self._families[name]
            lines.append(f"{_bare(name)}_created{{{first}{labels}}} {since_ms / 1000}\n")

    def encode(self) -> bytes:
        """Return the whole text."""
        for name, sums in self._sums.items():
            self._families[name][1].extend(f"{series} {value}\n" for series, value in sums.items())
        self._sums.clear()
        texts = ["".join(lines).encode() for _, lines in self._families.values()]
        return b"".join([*texts, b"# EOF\n" if self._openmetrics else b""])

    def _head(self, family: Family) -> str:
        name, kind, text = family.name, family.kind, family.help
        if self._openmetrics:
            name, text = _bare(name), text.replace('"', r"\"")
        elif kind == "unknown":
            kind = "untyped"
        return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


Section = Callable[[Exposition], None]
"""Begins some families and adds their series."""


def expose(
    gateway: int, sections: Iterable[Section], *, openmetrics: bool = False, hide: Callable[[str], str] | None = None
) -> bytes:
    """Return the response of that gateway to a scrape."""
    exposition = Exposition(gateway, openmetrics=openmetrics, hide=hide)
    for write in sections:
        write(exposition)
    return exposition.encode()


def labels(**values: str | int) -> str:
    """Return the labels of a series after its first one, as text: ``,topic="t",partition="0"``.

    Values may be any text.
    """
    return "".join([f',{name}="{_escaped(str(value))}"' for name, value in values.items()])


def _escaped(text: str) -> str:
    """Lone surrogates, which no text format can carry, become backslash escapes."""
    if not text.isascii():
        text = text.encode(errors="backslashreplace").decode()
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _bare(name: str) -> str:
    return name.removesuffix("_total")
