"""Log lines that strangers can cause at will: the first of a kind at once, then one a minute with a count."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

WINDOW_S = 60.0
_MAX_TOLD = 20
"""Of each kind this many are told apart by who causes them; the lines of all others count together."""
_OTHERS = "others"


@dataclass(slots=True)
class _Repeated:
    """Lines of one kind about one host that were not written yet."""

    count: int = 0
    last: tuple[str, tuple[object, ...]] = ("", ())


@dataclass(slots=True)
class _Window:
    """The lines of one kind since the last end of a window."""

    timer: asyncio.TimerHandle
    by_whom: dict[str, _Repeated] = field(default_factory=dict)


class LimitedLog:
    """In front of a logger; for one event loop.

    A line of a ``kind`` that ``who`` (a host, say) has caused for the first time is written at once. Further ones are
    counted, and at the end of each window one line says how many there were, with the last of them. So many hosts as
    may come, a kind holds the memory of a few. Kinds have to come from a fixed set.
    """

    def __init__(self, logger: logging.Logger, *, window_s: float = WINDOW_S) -> None:
        self._logger = logger
        self._window_s = window_s
        self._windows: dict[str, _Window] = {}

    def warning(self, kind: str, who: str, text: str, *args: object) -> None:
        """As ``Logger.warning``, limited."""
        if self._is_first(kind, who, text, args):
            self._logger.warning(text, *args)

    def exception(self, kind: str, who: str, text: str, *args: object) -> None:
        """As ``Logger.exception``, limited; only the first has its traceback."""
        if self._is_first(kind, who, text, args):
            self._logger.exception(text, *args)

    def flush(self) -> None:
        """Write what is counted, and begin anew."""
        for kind in list(self._windows):
            window = self._windows.pop(kind)
            window.timer.cancel()
            self._tell(window)

    def _is_first(self, kind: str, who: str, text: str, args: tuple[object, ...]) -> bool:
        window = self._windows.get(kind)
        if window is None:
            window = self._windows[kind] = _Window(self._timer(kind))
        if who not in window.by_whom and len(window.by_whom) < _MAX_TOLD:
            window.by_whom[who] = _Repeated()
            return True
        repeated = window.by_whom.get(who) or window.by_whom.setdefault(_OTHERS, _Repeated())
        repeated.count += 1
        repeated.last = (text, args)
        return False

    def _timer(self, kind: str) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._window_s, self._end, kind)

    def _end(self, kind: str) -> None:
        """Whoever goes on is counted on; who was quiet is a first one again."""
        window = self._windows.pop(kind)
        self._tell(window)
        going_on = {who: _Repeated() for who, repeated in window.by_whom.items() if repeated.count}
        if going_on:
            self._windows[kind] = _Window(self._timer(kind), going_on)

    def _tell(self, window: _Window) -> None:
        for who, repeated in window.by_whom.items():
            if repeated.count:
                text, args = repeated.last
                head = (f"{repeated.count:,}", who, self._window_s)
                self._logger.warning(f"and %s more from %s in the last %g s like this: {text}", *head, *args)
