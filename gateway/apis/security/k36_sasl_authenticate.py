"""SaslAuthenticate (api key 36), v0-2: the tokens of the mechanism that SaslHandshake chose (KIP-152).

v1 session_lifetime_ms (KIP-368) | v2 flexible, KIP-482
A failed login gets SASL_AUTHENTICATION_FAILED with Kafka's message, then the connection is closed; after a
SaslHandshake v0, no response can carry an error, so it is only closed.
"""

from __future__ import annotations

from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.guards.guard import UNGUARDED
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.complaints import BadRequest, Cause
from muster.gateway.security.mechanisms import AuthenticationFailed
from muster.gateway.security.session import SASL_AUTHENTICATE
from muster.gateway.security.turns import TooBusy

_TOO_LATE = "SaslAuthenticate request received after successful authentication"


def _body(error: ErrorCode, text: str | None, token: bytes = b"", lifetime_ms: int = 0) -> dict[str, Any]:
    return {"error_code": error, "error_message": text, "auth_bytes": token, "session_lifetime": lifetime_ms}


@api(SASL_AUTHENTICATE, "SaslAuthenticate", guard=UNGUARDED, error_body=lambda call, error: _body(error, call.reason))
async def sasl_authenticate(call: Call) -> Reply | None:
    session = call.connection.sasl
    if session is None or not session.takes_tokens:
        return _reply(call, ErrorCode.illegal_sasl_state, _TOO_LATE)
    is_bare = session.takes_bare_tokens
    token = call.frame if is_bare else call.entity().auth_bytes
    try:
        response = await session.respond(token, knows_lifetimes=not is_bare and call.header.api_version > 0)
    except TooBusy as error:
        raise BadRequest(Cause.TOO_MANY_LOGINS, str(error)) from None
    except AuthenticationFailed as error:
        reason = f" ({error.reason})" if error.reason else ""
        call.connection.refuse(Cause.AUTHENTICATION_FAILED, f"{session.mechanism}: {error}{reason}")
        return None if is_bare else _reply(call, ErrorCode.sasl_authentication_failed, str(error))
    if session.is_complete and session.user is not None:
        call.connection.authenticated(session.user)
    if is_bare:
        return Reply((response,))
    return call.reply(_body(ErrorCode.none, None, response, session.lifetime_ms if session.is_complete else 0))


def _reply(call: Call, error: ErrorCode, text: str) -> Reply:
    return call.reply(_body(error, text))
