"""SCRAM (RFC 5802, 7677) as Kafka speaks it: what is stored of a password, and the server's side of a login.

There is no channel binding. Names and passwords are taken as they are, without SASLprep, as Kafka and its clients do.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
DEFAULT_ITERATIONS = 4096
"""Kafka's default, and its minimum (RFC 7677)."""
MAX_ITERATIONS = 1_000_000
"""A limit because PLAIN computes this many at each login."""
SALT_BYTES = 32
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_FIELD = re.compile(r"(salt|stored_key|server_key|iterations)=([^,]*)")
_NAME = r"(?:[^=,\0]|=2C|=3D)+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?:,[A-Za-z]+=[^,\0]+)*"
_CLIENT_FIRST = re.compile(
    rf"(?P<gs2_header>n,(?:a=(?P<authorization_id>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<without_proof>c=(?P<binding>[^,]+),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_TOKEN_LOGIN = re.compile(r",tokenauth=true(?:,|$)", re.IGNORECASE)
_NONCE_BYTES = 24


class ScramError(ValueError):
    """The client's message is invalid, or the proof is wrong."""


@dataclass(frozen=True, slots=True, repr=False)
class ScramCredential:
    """Stored form of a password, for one mechanism (RFC 5802, section 3)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def of_password(cls, mechanism: str, password: str, iterations: int = DEFAULT_ITERATIONS) -> ScramCredential:
        """Create a credential with a new salt."""
        salt = secrets.token_bytes(SALT_BYTES)
        return cls.of_salted(mechanism, salt, salted_password(mechanism, password, salt, iterations), iterations)

    @classmethod
    def of_salted(cls, mechanism: str, salt: bytes, salted: bytes, iterations: int) -> ScramCredential:
        """Return the credential of a salted password, which is not kept."""
        name = _HASHES[mechanism]
        stored_key = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
        return cls(salt, stored_key, hmac.digest(salted, b"Server Key", name), iterations)

    def is_of(self, mechanism: str, password: str) -> bool:
        """Whether it is that password. Takes milliseconds on purpose, and holds no lock of the interpreter."""
        salted = salted_password(mechanism, password, self.salt, self.iterations)
        found = self.of_salted(mechanism, self.salt, salted, self.iterations)
        return hmac.compare_digest(found.stored_key, self.stored_key)

    def encode(self) -> str:
        """Encode it as Kafka does."""
        salt, stored, server = (base64.b64encode(b).decode() for b in (self.salt, self.stored_key, self.server_key))
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"

    @classmethod
    def decode(cls, text: str) -> ScramCredential:
        """Decode it. Raises ValueError, without the text, if it is invalid."""
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
        if not DEFAULT_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ValueError(f"needs {DEFAULT_ITERATIONS} to {MAX_ITERATIONS} iterations")
        return cls(salt, stored, server, iterations)


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """RFC 5802's SaltedPassword."""
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode("utf-8", "surrogatepass"), salt, iterations)


def digest_size(mechanism: str) -> int:
    """Bytes of the mechanism's keys."""
    return hashlib.new(_HASHES[mechanism]).digest_size


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The client's first message."""

    name: str
    authorization_id: str
    """Empty if the client names none."""
    nonce: str
    bare: str
    gs2_header: str
    is_token_login: bool
    """Whether it is a login with a delegation token (KIP-48)."""

    @classmethod
    def decode(cls, token: bytes) -> ClientFirst:
        """Decode the message.

        Raises ScramError if it is invalid, or wants channel binding (``p``) or could have it (``y``).
        """
        found = _CLIENT_FIRST.fullmatch(_text(token))
        if found is None:
            raise ScramError("not a client's first message")
        return cls(
            name=_unescaped(found["name"]),
            authorization_id=_unescaped(found["authorization_id"] or ""),
            nonce=found["nonce"],
            bare=found["bare"],
            gs2_header=found["gs2_header"],
            is_token_login=bool(_TOKEN_LOGIN.search(found["extensions"])),
        )


class ServerExchange:
    """The server's two messages of one login."""

    def __init__(self, mechanism: str, first: ClientFirst, credential: ScramCredential) -> None:
        self._hash = _HASHES[mechanism]
        self._first = first
        self._credential = credential
        self._nonce = first.nonce + secrets.token_urlsafe(_NONCE_BYTES)
        salt = base64.b64encode(credential.salt).decode()
        self.server_first = f"r={self._nonce},s={salt},i={credential.iterations}"

    def server_final(self, token: bytes) -> bytes:
        """Return the response to the client's final message.

        Raises ScramError if that is invalid, or the proof is wrong.
        """
        found = _CLIENT_FINAL.fullmatch(_text(token))
        if found is None:
            raise ScramError("not a client's final message")
        if found["nonce"] != self._nonce or _base64(found["binding"]) != self._first.gs2_header.encode():
            raise ScramError("another nonce or channel binding")
        held, name = self._credential, self._hash
        message = ",".join((self._first.bare, self.server_first, found["without_proof"])).encode()
        signature, proof = hmac.digest(held.stored_key, message, name), _base64(found["proof"])
        if len(proof) != len(signature):
            raise ScramError("a proof of another size")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(name, client_key).digest(), held.stored_key):
            raise ScramError("a wrong proof")
        return b"v=" + base64.b64encode(hmac.digest(held.server_key, message, name))


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise ScramError("not UTF-8") from None


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise ScramError("not Base64") from None


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
