"""The users that may log in: a property file of salted hashes, never of passwords.

One line per user and mechanism, ``NAME.SCRAM-SHA-256=salt=...,stored_key=...,server_key=...,iterations=4096``; the
value is what Kafka itself stores of a SCRAM user (``ScramCredentialUtils``), so users can be migrated. ``muster
user add`` writes the lines. PLAIN compares the password with any of them: only the hash is stored (RFC 5802,
5803).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import re
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import javaproperties
from scramp import ScramException, ScramMechanism

from muster.actors.runtime.files import write_atomically

log = logging.getLogger(__name__)

SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MAX_NAME_CHARS = 255
DEFAULT_ITERATIONS = 4096
"""Kafka's default, and its minimum (RFC 7677)."""
MAX_ITERATIONS = 1_000_000
"""A limit because PLAIN computes this many at each login."""
_MIN_SALT_BYTES = 12
_FIELD = re.compile(r"(salt|stored_key|server_key|iterations)=([^,]+)")


class CredentialsError(ValueError):
    """The file of credentials cannot be read, or a line is invalid. The message says which, and contains no secret."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What the server stores of a password for one mechanism (RFC 5802, section 3)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def of_password(cls, mechanism: str, password: str, iterations: int = DEFAULT_ITERATIONS) -> ScramCredential:
        """Create a credential with a new salt. ValueError for a password that SASLprep does not allow."""
        try:
            return cls(*ScramMechanism(mechanism).make_auth_info(password, iteration_count=iterations))
        except ScramException as error:
            raise ValueError(str(error)) from error

    def is_of(self, mechanism: str, password: str) -> bool:
        """Whether it is that password. Takes milliseconds on purpose."""
        try:
            _, stored_key, _, _ = ScramMechanism(mechanism).make_auth_info(password, self.iterations, self.salt)
        except ScramException:
            return False
        return hmac.compare_digest(stored_key, self.stored_key)

    def encode(self) -> str:
        """Encode it as Kafka does."""
        salt, stored, server = (base64.b64encode(b).decode() for b in (self.salt, self.stored_key, self.server_key))
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"

    @classmethod
    def decode(cls, text: str) -> ScramCredential:
        """Decode it. ValueError if it is invalid."""
        found = [_FIELD.fullmatch(part.strip()) for part in text.split(",")]
        fields = {part[1]: part[2] for part in found if part}
        if None in found or len(found) != 4 or len(fields) != 4:
            raise ValueError("needs salt, stored_key, server_key and iterations, each once")
        try:
            salt, stored, server = (
                base64.b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
            )
            iterations = int(fields["iterations"])
        except (binascii.Error, ValueError):
            raise ValueError("has a field that is not Base64, or iterations that are no number") from None
        if len(salt) < _MIN_SALT_BYTES or not DEFAULT_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ValueError(
                f"needs at least {_MIN_SALT_BYTES} bytes of salt, "
                f"and {DEFAULT_ITERATIONS} to {MAX_ITERATIONS} iterations"
            )
        return cls(salt, stored, server, iterations)


class Credentials:
    """The users of one file."""

    def __init__(self, users: Mapping[str, Mapping[str, ScramCredential]]) -> None:
        """Takes the credentials by user, then by mechanism."""
        self._users = users
        self._pepper = secrets.token_bytes(32)

    def scram(self, user: str, mechanism: str) -> ScramCredential:
        """The user's credential; for an unknown user, one that no password fits, so clients learn no names."""
        known = self._users.get(user, {}).get(mechanism)
        if known is not None:
            return known
        name = f"{mechanism}:{user}".encode("utf-8", "surrogatepass")
        salt = hmac.digest(self._pepper, name, "sha512")[:32]
        size_bytes = ScramMechanism(mechanism).hf().digest_size
        return ScramCredential(
            salt, secrets.token_bytes(size_bytes), secrets.token_bytes(size_bytes), DEFAULT_ITERATIONS
        )

    def is_password(self, user: str, password: str) -> bool:
        """Whether the user has that password. Takes milliseconds, also for unknown users."""
        held = self._users.get(user, {})
        mechanism = next(iter(held), SCRAM_MECHANISMS[0])
        return self.scram(user, mechanism).is_of(mechanism, password)


class CredentialsFile:
    """The file, read again when it changes; thread-safe."""

    def __init__(self, path: Path) -> None:
        """Raises CredentialsError if it cannot be read."""
        self._path = path
        self._lock = threading.Lock()
        self._stamp = self._look()
        self._credentials = Credentials(read(path))

    def current(self) -> Credentials:
        """The current users. While a changed file cannot be read, the previous ones, and one log line reports it."""
        with self._lock:
            try:
                stamp = self._look()
                if stamp != self._stamp:
                    self._stamp = stamp
                    self._credentials = Credentials(read(self._path))
                    log.info("users are read anew from %s", self._path)
            except CredentialsError as error:
                log.error("%s; users stay as they were", error)
            return self._credentials

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def read(path: Path) -> dict[str, dict[str, ScramCredential]]:
    """Credentials by user, then by mechanism. Raises CredentialsError."""
    try:
        lines = javaproperties.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no property file"
        raise CredentialsError(f"the users in {path} cannot be read: {why}") from error
    users: dict[str, dict[str, ScramCredential]] = {}
    for key, value in lines.items():
        name, _, mechanism = key.rpartition(".")
        if not 0 < len(name) <= MAX_NAME_CHARS or mechanism not in SCRAM_MECHANISMS:
            raise CredentialsError(f"{path}: {key[:80]} is not NAME.{' or NAME.'.join(SCRAM_MECHANISMS)}")
        try:
            users.setdefault(name, {})[mechanism] = ScramCredential.decode(value)
        except ValueError as error:
            raise CredentialsError(f"{path}: {key} {error}") from None
    return users


def write(path: Path, users: Mapping[str, Mapping[str, ScramCredential]]) -> None:
    """Replace the file atomically; only its owner may read it. Raises OSError."""
    lines = {
        f"{name}.{mechanism}": credential.encode()
        for name, held in sorted(users.items())
        for mechanism, credential in sorted(held.items())
    }
    write_atomically(path, javaproperties.dumps(lines, timestamp=False))
