"""Bearer tokens of the HTTP port: a property file ``NAME=SHA-256 of the token[,SHA-256 of another one]``.

A token is 256 random bits, so its plain hash cannot be turned back. Several for one name allow to change one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from muster.gateway.security.files import (
    PropertyFileError,
    WatchedFile,
    read_properties,
    write_properties,
)

_HASH = re.compile(r"[0-9a-f]{64}")
MAX_NAME_CHARS = 255


def new_token() -> str:
    return secrets.token_urlsafe(32)


def hash_of(token: str) -> str:
    """SHA-256, in hex."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class TokensFile:
    """The file, read again when it changes; thread-safe."""

    def __init__(self, path: Path) -> None:
        """Raise PropertyFileError if it cannot be read."""
        self._file = WatchedFile(path, read, "tokens")

    def user_of(self, token: str) -> str | None:
        """Return the name that the token is for. Takes the same time for every token."""
        sent = hash_of(token)
        found = None
        for name, hashes in self._file.current().items():
            for known in hashes:
                if hmac.compare_digest(known, sent):
                    found = name
        return found


def read(path: Path) -> dict[str, tuple[str, ...]]:
    """Hashes by name. Raises PropertyFileError."""
    users = {}
    for name, value in read_properties(path, "tokens").items():
        hashes = tuple(part.strip() for part in value.split(","))
        if not 0 < len(name) <= MAX_NAME_CHARS or not all(map(_HASH.fullmatch, hashes)):
            raise PropertyFileError(
                f"{path}: the value of {name[:80]!r} is no SHA-256 in hex; muster token add writes it"
            )
        users[name] = hashes
    return users


def write(path: Path, users: Mapping[str, tuple[str, ...]]) -> None:
    """Replace the file atomically; only its owner may read it. Raises OSError."""
    write_properties(path, {name: ",".join(hashes) for name, hashes in sorted(users.items())})
