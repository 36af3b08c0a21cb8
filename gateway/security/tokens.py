"""Bearer tokens of the HTTP port: a property file ``NAME=SHA-256 of the token[,SHA-256 of another one]``.

A token is 256 random bits, so its plain hash cannot be turned back. Several for one name allow to change one.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
import threading
from collections.abc import Mapping
from pathlib import Path

import javaproperties

from muster.actors.runtime.files import write_atomically

log = logging.getLogger(__name__)

_HASH = re.compile(r"[0-9a-f]{64}")
MAX_NAME_CHARS = 255


class TokensError(ValueError):
    """The file of tokens cannot be read, or a line is invalid. The message says which, and contains no secret."""


def new_token() -> str:
    return secrets.token_urlsafe(32)


def hash_of(token: str) -> str:
    """SHA-256, in hex."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class TokensFile:
    """The file, read again when it changes; thread-safe."""

    def __init__(self, path: Path) -> None:
        """Raises TokensError if it cannot be read."""
        self._path = path
        self._lock = threading.Lock()
        self._stamp = self._look()
        self._users = read(path)

    def user_of(self, token: str) -> str | None:
        """The name that the token is for. Takes the same time for every token."""
        sent = hash_of(token)
        found = None
        for name, hashes in self._current().items():
            for known in hashes:
                if hmac.compare_digest(known, sent):
                    found = name
        return found

    def _current(self) -> Mapping[str, tuple[str, ...]]:
        with self._lock:
            try:
                stamp = self._look()
                if stamp != self._stamp:
                    self._stamp = stamp
                    self._users = read(self._path)
                    log.info("tokens are read anew from %s", self._path)
            except TokensError as error:
                log.error("%s; tokens stay as they were", error)
            return self._users

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def read(path: Path) -> dict[str, tuple[str, ...]]:
    """Hashes by name. Raises TokensError."""
    try:
        lines = javaproperties.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no property file"
        raise TokensError(f"the tokens in {path} cannot be read: {why}") from None
    users = {}
    for name, value in lines.items():
        hashes = tuple(part.strip() for part in value.split(","))
        if not 0 < len(name) <= MAX_NAME_CHARS or not all(map(_HASH.fullmatch, hashes)):
            raise TokensError(f"{path}: the value of {name[:80]!r} is no SHA-256 in hex; muster token add writes it")
        users[name] = hashes
    return users


def write(path: Path, users: Mapping[str, tuple[str, ...]]) -> None:
    """Replace the file atomically; only its owner may read it. Raises OSError."""
    lines = {name: ",".join(hashes) for name, hashes in sorted(users.items())}
    write_atomically(path, javaproperties.dumps(lines, timestamp=False))
