"""Files of secrets: property files of users and tokens, and whether a file has changed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

import javaproperties

from muster.actors.runtime.files import write_atomically

log = logging.getLogger(__name__)

T = TypeVar("T")

Stamp = tuple[int, int, int] | None


class PropertyFileError(ValueError):
    """The file cannot be read, or a line is invalid. The message says which, and contains no secret."""


def read_properties(path: Path, what: str) -> dict[str, str]:
    """Return the properties of a file. Raises PropertyFileError; ``what`` they are, for its message."""
    try:
        return dict(javaproperties.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no property file"
        raise PropertyFileError(f"the {what} in {path} cannot be read: {why}") from None


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Replace the file atomically; only its owner may read it. Raises OSError."""
    write_atomically(path, javaproperties.dumps(properties, timestamp=False))


def stamp_of(path: Path) -> Stamp:
    """Another one once the file has changed; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class WatchedFile(Generic[T]):
    """Content of a file, read again when the file changes; thread-safe."""

    def __init__(self, path: Path, read: Callable[[Path], T], what: str) -> None:
        """``read`` raises PropertyFileError, and so does this; ``what`` is in the file, for log lines."""
        self._path = path
        self._read = read
        self._what = what
        self._lock = threading.Lock()
        self._stamp = stamp_of(path)
        self._content = read(path)

    def current(self) -> T:
        """Return the current content.

        While a changed file cannot be read, its former content; one log line reports it.
        """
        with self._lock:
            stamp = stamp_of(self._path)
            if stamp != self._stamp:
                self._stamp = stamp
                try:
                    self._content = self._read(self._path)
                except PropertyFileError as error:
                    log.error("%s; %s stay as they were", error, self._what)
                else:
                    log.info("%s are read anew from %s", self._what, self._path)
            return self._content
