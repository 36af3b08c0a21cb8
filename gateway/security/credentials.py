"""The users that may log in: in ZooKeeper, as Kafka's APIs alter them, and in a property file.

A line of the file is a user and a mechanism, ``NAME.SCRAM-SHA-256=salt=...,stored_key=...,server_key=...,
iterations=4096``; the value is what Kafka itself stores of a SCRAM user (``ScramCredentialUtils``), so users can be
migrated. A user with a credential in ZooKeeper has none in the file. PLAIN compares the password with the same hashes.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from muster.gateway.security.files import PropertyFileError, read_properties, write_properties
from muster.gateway.security.scram import (
    DEFAULT_ITERATIONS,
    SALT_BYTES,
    SCRAM_MECHANISMS,
    ScramCredential,
    digest_size,
)
from muster.placement.security.entities import Entity

log = logging.getLogger(__name__)

Entities = Mapping[Entity, Mapping[str, str]]
Users = Mapping[str, Mapping[str, ScramCredential]]
"""Credentials by user, then by mechanism."""
MAX_NAME_CHARS = 255
_BASE_36 = b"0123456789abcdefghijklmnopqrstuvwxyz"
_ITERATIONS = re.compile(r"iterations=(\d{4,7})")
_SAMPLE = 250
"""How many users of ZooKeeper decide what is usual."""


class Shape(NamedTuple):
    """Part of a credential that anyone can see by beginning a login."""

    iterations: int
    salt_bytes: int
    is_text: bool
    """Whether the salt is letters and digits, as those of Kafka's tools are."""


class Credentials:
    """The users of ZooKeeper and of a file at one time."""

    def __init__(self, users: Users, entities: Entities | None = None, secret: bytes = b"") -> None:
        """``users`` are those of the file. ``secret`` is the same on all gateways: it decides unknown users' salts."""
        self._of_file = users
        self._entities = entities or {}
        self._secret = secret
        self._malformed: set[tuple[str, str]] = set()
        """Credentials, by user and mechanism, that the log has."""

    def scram(self, user: str, mechanism: str) -> ScramCredential:
        """Return the user's credential; for an unknown user, one that no password fits, so clients learn no names.

        Does the same work for every user: how long it takes must not tell who exists either.
        """
        stored = stored_credentials(self._entities.get(Entity.of_user(user), {})) if user else {}
        unknown = self._of_no_one(user, mechanism)
        text = stored.get(mechanism, unknown.encode())
        try:
            decoded = ScramCredential.decode(text)
            of_file = self._of_file.get(user, {}).get(mechanism, decoded)
            return decoded if stored else of_file
        except ValueError as error:
            if (user, mechanism) not in self._malformed:
                self._malformed.add((user, mechanism))
                log.warning("the %s credential of %r in ZooKeeper %s", mechanism, user, error)
            return unknown

    def is_password(self, user: str, password: str) -> bool:
        """Whether the user has that password.

        Takes milliseconds: one hash for each of SCRAM_MECHANISMS, for unknown users too, so that a response does not
        take longer or shorter for the users that exist. Iterations that are unusual here can still be seen, as in
        SCRAM itself.
        """
        fits = [self.scram(user, mechanism).is_of(mechanism, password) for mechanism in SCRAM_MECHANISMS]
        return any(fits)

    def _of_no_one(self, user: str, mechanism: str) -> ScramCredential:
        shape = self._usual[mechanism]
        key = hmac.digest(self._secret, f"{mechanism}:{user}".encode("utf-8", "surrogatepass"), "sha512")
        salt = hashlib.shake_256(key).digest(shape.salt_bytes)
        if shape.is_text:
            salt = bytes(_BASE_36[byte % len(_BASE_36)] for byte in salt)
        size = digest_size(mechanism)
        return ScramCredential(salt, secrets.token_bytes(size), secrets.token_bytes(size), shape.iterations)

    @cached_property
    def _usual(self) -> Mapping[str, Shape]:
        """The most frequent shape of each mechanism's credentials."""
        counts = {mechanism: Counter(self._shapes(mechanism)) for mechanism in SCRAM_MECHANISMS}
        every = sum(counts.values(), Counter())
        return {mechanism: _most_frequent(count or every) for mechanism, count in counts.items()}

    def _shapes(self, mechanism: str) -> Iterator[Shape]:
        texts = (config[mechanism] for config in self._entities.values() if mechanism in config)
        for text in islice(texts, _SAMPLE):
            try:
                yield _shape(ScramCredential.decode(text))
            except ValueError:
                continue
        for held in islice(self._of_file.values(), _SAMPLE):
            if mechanism in held:
                yield _shape(held[mechanism])


def _shape(credential: ScramCredential) -> Shape:
    salt = credential.salt
    return Shape(credential.iterations, len(salt), bool(salt) and not salt.strip(_BASE_36))


def _most_frequent(counts: Counter[Shape]) -> Shape:
    return max(counts, key=lambda shape: (counts[shape], shape), default=Shape(DEFAULT_ITERATIONS, SALT_BYTES, False))


def stored_credentials(config: Mapping[str, str]) -> dict[str, str]:
    """Return the SCRAM credentials, as text, among the configs of a user in ZooKeeper."""
    return {mechanism: config[mechanism] for mechanism in SCRAM_MECHANISMS if mechanism in config}


def read(path: Path) -> dict[str, dict[str, ScramCredential]]:
    """Credentials by user, then by mechanism. Raises PropertyFileError."""
    users: dict[str, dict[str, ScramCredential]] = {}
    for key, value in read_properties(path, "users").items():
        name, _, mechanism = key.rpartition(".")
        if not 0 < len(name) <= MAX_NAME_CHARS or mechanism not in SCRAM_MECHANISMS:
            raise PropertyFileError(f"{path}: {key[:80]} is not NAME.{' or NAME.'.join(SCRAM_MECHANISMS)}")
        try:
            users.setdefault(name, {})[mechanism] = ScramCredential.decode(value)
        except ValueError as error:
            raise PropertyFileError(f"{path}: {key} {error}") from None
    return users


def write(path: Path, users: Users) -> None:
    """Replace the file atomically; only its owner may read it. Raises OSError."""
    properties = {
        f"{name}.{mechanism}": credential.encode()
        for name, held in sorted(users.items())
        for mechanism, credential in sorted(held.items())
    }
    write_properties(path, properties)
