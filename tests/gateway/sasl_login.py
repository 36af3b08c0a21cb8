"""Logins of a test, byte by byte."""

from __future__ import annotations

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
    """The response to the token."""
    handshake(client, "PLAIN")
    return authenticate(client, plain(user, password))


def by_scram(client: Client, mechanism: str, user: str, password: str, version: int = 2) -> Any:
    """The response to the last token."""
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
