"""The log message about a client that wants transactions, which come with a later version."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.gateway.listener.registry import Call

NOT_SERVED = "Muster does not serve transactions yet; idempotent producers, without transactional.id, are served"
_MAX_CHARS = 100


def log_refusal(call: Call, transactional_id: str) -> None:
    """Log it, rate-limited: the error that the client gets reads as if it lacked rights."""
    connection = call.connection
    client_id = (call.header.client_id or "")[:_MAX_CHARS]
    call.gateway.limited_log.warning(
        "transactions",
        f"{client_id!r} of {connection.host}",
        "client %r of %s:%d is refused with transactional.id %r: %s",
        client_id,
        connection.host,
        connection.port,
        transactional_id[:_MAX_CHARS],
        NOT_SERVED,
    )
