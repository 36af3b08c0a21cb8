"""Log lines that untrusted peers can cause at will: the first of a kind immediately, then one a minute with a count."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

WINDOW_S = 60.0
_MAX_CAUSES = 20
"""For each kind, this many causes are counted separately; the lines of all others are counted together."""
_OTHERS = "others"


@dataclass(slots=True)
class _Repeated:
    """Lines of one kind about one host that were not written yet."""

    count: int = 0
    level: int = logging.WARNING
    last: tuple[str, tuple[object, ...]] = ("", ())


@dataclass(slots=True)
class _Window:
    """The lines of one kind in the current window."""

    timer: asyncio.TimerHandle
    by_whom: dict[str, _Repeated] = field(default_factory=dict)


class LimitedLog:
    """Wraps a logger. For one event loop.

    The first line of a ``kind`` that ``who`` (such as a host) causes is written immediately. Further ones are counted,
    and at the end of each window one line reports their number, with the last of them. However many hosts there are, a
    kind uses the memory of a few. Kinds must come from a fixed set.
    """

    def __init__(self, logger: logging.Logger, *, window_s: float = WINDOW_S) -> None:
        self._logger = logger
        self._window_s = window_s
        self._windows: dict[str, _Window] = {}

    def warning(
        self, kind: str, who: str, text: str, *args: object, fields: Mapping[str, object] | None = None
    ) -> None:
        """Like ``Logger.warning``, limited. ``fields``: its ``extra``."""
        if self._is_first(kind, who, logging.WARNING, text, args):
            self._logger.warning(text, *args, extra=fields)

    def info(self, kind: str, who: str, text: str, *args: object) -> None:
        """Like ``Logger.info``, limited."""
        if self._is_first(kind, who, logging.INFO, text, args):
            self._logger.info(text, *args)

    def exception(
        self,
        error: BaseException,
        kind: str,
        who: str,
        text: str,
        *args: object,
        fields: Mapping[str, object] | None = None,
    ) -> None:
        """Like ``Logger.exception``, limited; only the first has its traceback. ``fields``: its ``extra``."""
        if self._is_first(kind, who, logging.WARNING, text, args):
            self._logger.error(text, *args, exc_info=error, extra=fields)

    def flush(self) -> None:
        """Write what is counted, and start over."""
        for kind in list(self._windows):
            window = self._windows.pop(kind)
            window.timer.cancel()
            self._report(window)

    def _is_first(self, kind: str, who: str, level: int, text: str, args: tuple[object, ...]) -> bool:
        window = self._windows.get(kind)
        if window is None:
            window = self._windows[kind] = _Window(self._timer(kind))
        if who not in window.by_whom and len(window.by_whom) < _MAX_CAUSES:
            window.by_whom[who] = _Repeated()
            return True
        repeated = window.by_whom.get(who) or window.by_whom.setdefault(_OTHERS, _Repeated())
        repeated.count += 1
        repeated.level, repeated.last = level, (text, args)
        return False

    def _timer(self, kind: str) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._window_s, self._end, kind)

    def _end(self, kind: str) -> None:
        """Keep counting causes that were repeated; for the others, the next line counts as a first one again."""
        window = self._windows.pop(kind)
        self._report(window)
        going_on = {who: _Repeated() for who, repeated in window.by_whom.items() if repeated.count}
        if going_on:
            self._windows[kind] = _Window(self._timer(kind), going_on)

    def _report(self, window: _Window) -> None:
        for who, repeated in window.by_whom.items():
            if repeated.count:
                text, args = repeated.last
                head = (f"{repeated.count:,}", who, self._window_s)
                self._logger.log(
                    repeated.level, f"and %s more from %s in the last %g s like this: {text}", *head, *args
                )
