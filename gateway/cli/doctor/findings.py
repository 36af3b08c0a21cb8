"""The result of a check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from muster.gateway.client.errors import MusterError

Level = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a check."""

    check: str
    level: Level
    found: str
    mend: str | None = None
    """Remedy; None if nothing has to be done."""


def ok(check: str, found: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(check, "ok", found)


def warning(check: str, found: str, mend: str) -> Finding:
    """Return a finding with which Muster works, but not as well or as safely as it could."""
    return Finding(check, "warning", found, mend)


def failed(check: str, found: str, mend: str) -> Finding:
    """Return a finding with which Muster does not start, or does not serve."""
    return Finding(check, "failed", found, mend)


def from_error(check: str, error: MusterError) -> Finding:
    """Return a refusal of ``muster up``: the last part of its message is the remedy."""
    found, separator, mend = error.message.rpartition("; ")
    return failed(check, found, mend) if separator else failed(check, mend, "change it, then check again")


def passes(check: str, found: str, attempts: Iterable[Callable[[], object]]) -> Iterator[Finding]:
    """Yield a finding for each attempt that is refused; ``found`` if none is."""
    refused = False
    for attempt in attempts:
        try:
            attempt()
        except MusterError as error:
            refused = True
            yield from_error(check, error)
    if not refused:
        yield ok(check, found)
