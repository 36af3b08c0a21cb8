"""SaslHandshake (api key 17), v0-1: the client chooses a mechanism.

v0 the tokens follow as bare frames | v1 they come in SaslAuthenticate (KIP-152)
For a mechanism that is not enabled, the response lists the enabled ones, and the connection is closed. In a session
with a lifetime it begins to authenticate again (KIP-368). Otherwise, without SASL or once authentication is complete,
ILLEGAL_SASL_STATE, as in Kafka.
"""

from __future__ import annotations

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.guards.guard import UNGUARDED
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.complaints import Cause
from muster.gateway.security.session import SASL_HANDSHAKE


@api(
    SASL_HANDSHAKE,
    "SaslHandshake",
    guard=UNGUARDED,
    error_body=lambda _, error: {"error_code": error, "mechanisms": []},
)
async def sasl_handshake(call: Call) -> Reply | None:
    session = call.connection.sasl
    if session is None or not session.takes_handshake:
        return call.reply({"error_code": ErrorCode.illegal_sasl_state, "mechanisms": []})
    mechanism = call.entity().mechanism
    if await session.begin(mechanism, call.connection.host, bare_tokens=call.header.api_version == 0):
        return call.reply({"error_code": ErrorCode.none, "mechanisms": list(session.mechanisms)})
    enabled = ", ".join(session.mechanisms)
    problem = f"SASL mechanism {mechanism[:40]!r} is not enabled; {enabled} is"
    call.connection.refuse(Cause.AUTHENTICATION_FAILED, problem)
    return call.reply({"error_code": ErrorCode.unsupported_sasl_mechanism, "mechanisms": list(session.mechanisms)})
