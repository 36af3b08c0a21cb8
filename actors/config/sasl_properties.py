"""How clients log in, beyond the mechanisms and the file of users. Names and defaults are Kafka's."""

from __future__ import annotations

from pydantic import BaseModel, Field

from muster.actors.config.types import Int, Long


class SaslProperties(BaseModel):
    """Part of :class:`~muster.actors.config.properties.MusterConfig`."""

    connections_max_reauth_ms: Long = Field(
        0,
        ge=0,
        description="How long a session lasts before the client has to authenticate again on its connection (KIP-368),"
        " in ms; 0: it does not end. Connections of clients that do not are closed.",
    )
    sasl_server_max_receive_size: Int = Field(
        524_288, ge=1, description="Maximum size of a request of a client that is not authenticated, in bytes."
    )
    connection_failed_authentication_delay_ms: Int = Field(
        100,
        ge=0,
        description="How long the response to a failed login, and the end of its connection, are delayed, in ms; less"
        " than connections.max.idle.ms.",
    )
