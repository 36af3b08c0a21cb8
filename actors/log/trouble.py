"""Disk trouble, logged once when it begins, when it changes, and when it is over."""

from __future__ import annotations

import logging
import time

log = logging.getLogger(__name__)


class Trouble:
    """The trouble of one operation that is retried. ``what`` names it in the log, ``meanwhile`` says what it does."""

    def __init__(self, what: str, meanwhile: str = "refused with KAFKA_STORAGE_ERROR until then") -> None:
        self._what = what
        self._meanwhile = meanwhile
        self._began_s: float | None = None
        self._logged: object = None
        self._failures = 0

    def failed(self, error: BaseException | str) -> None:
        """Note a failed attempt; log the first of each kind."""
        if self._began_s is None:
            self._began_s = time.monotonic()
        self._failures += 1
        kind = error.errno if isinstance(error, OSError) else str(error)  # the text names a different file each time
        if kind != self._logged:
            self._logged = kind
            log.error("%s: %s; it is tried again, and %s", self._what, error, self._meanwhile)

    def over(self) -> None:
        """Note a successful attempt; log the end of the trouble."""
        if self._began_s is None:
            return
        lasted_s = time.monotonic() - self._began_s
        log.warning("%s: all is well again, after %.1f s and %d failures", self._what, lasted_s, self._failures)
        self._began_s, self._logged, self._failures = None, None, 0
