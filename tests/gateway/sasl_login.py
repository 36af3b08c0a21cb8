"""Logins of a test, byte by byte."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from typing import Any

from scramp import ScramClient

from tests.gateway.serving import Client

HANDSHAKE, AUTHENTICATE, API_VERSIONS, METADATA = 17, 36, 18, 3
NO_TOPICS: dict[str, Any] = {"topics": [], "allow_auto_topic_creation": False}


def handshake(client: Client, mechanism: str, version: int = 1) -> Any:
    return client.exchange(HANDSHAKE, version, {"mechanism": mechanism})


def authenticate(client: Client, token: bytes, version: int = 2) -> Any:
    return client.exchange(AUTHENTICATE, version, {"auth_bytes": token})


def plain(user: str, password: str, authorization_id: str = "") -> bytes:
    return "\0".join((authorization_id, user, password)).encode()


def by_plain(client: Client, user: str, password: str) -> Any:
    """Log in by PLAIN; return the response to the token."""
    handshake(client, "PLAIN")
    return authenticate(client, plain(user, password))


def by_scram(client: Client, mechanism: str, user: str, password: str, version: int = 2) -> Any:
    """Log in by SCRAM; return the response to the last token."""
    handshake(client, mechanism)
    scram = ScramClient([mechanism], user, password)
    scram.set_server_first(authenticate(client, scram.get_client_first().encode(), version).auth_bytes.decode())
    response = authenticate(client, scram.get_client_final().encode(), version)
    if not response.error_code:
        scram.set_server_final(response.auth_bytes.decode())
    return response


def works(client: Client) -> bool:
    """Whether it is served."""
    return bool(client.exchange(METADATA, 4, NO_TOPICS).cluster_id)


class RawScram:
    """A login by SCRAM with any first message."""

    def __init__(self, mechanism: str, password: str, bare: str, gs2_header: str = "n,,") -> None:
        self._hash = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
        self._password = password
        self._bare = bare
        self._gs2_header = gs2_header
        self.first = f"{gs2_header}{bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        text = server_first.decode()
        fields = dict(part.split("=", 1) for part in text.split(","))
        salt, iterations = b64decode(fields["s"]), int(fields["i"])
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        without_proof = f"c={b64encode(self._gs2_header.encode()).decode()},r={fields['r']}"
        message = f"{self._bare},{text},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), message, self._hash)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        return f"{without_proof},p={b64encode(proof).decode()}".encode()
