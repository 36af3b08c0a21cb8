"""The identity of a client, as its requests carry it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

ANONYMOUS = "User:ANONYMOUS"
"""Kafka's principal of a client that did not authenticate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Where a request came from."""

    client_id: str | None
    host: str
    """Canonical address without port. Responses show it as Kafka does, with a leading slash."""
    connection: str = ""
    principal: str = ANONYMOUS


@lru_cache(maxsize=8192)
def of_client(context: Context, client_id: str | None) -> Context:
    """Return the context with that client id. Nearly all requests of a connection have the same one."""
    return replace(context, client_id=client_id)
