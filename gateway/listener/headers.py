"""Headers of requests, and the errors for those that are not served, or not before the client has authenticated."""

from __future__ import annotations

from muster.actors.wire.kafka import codec
from muster.gateway.listener.api import APIS, Api
from muster.gateway.listener.complaints import BadRequest, Cause
from muster.gateway.listener.gateway import ClientConnection, Gateway
from muster.gateway.security.session import SASL_AUTHENTICATE, SASL_HANDSHAKE, SaslSession

_BARE_TOKEN = codec.Header(SASL_AUTHENTICATE, 0, 0, None, 0)
"""The header of a frame that has none: a SASL token after SaslHandshake v0."""


def header_of(frame: bytes, connection: ClientConnection, gateway: Gateway) -> codec.Header:
    """Return the header of a request that is served. Raises BadRequest for any other."""
    sasl = connection.sasl
    if sasl is not None and sasl.takes_bare_tokens:
        return _BARE_TOKEN
    try:
        header = codec.decode_header(frame)
    except codec.UnknownApi as error:
        raise _turned_away(frame, connection, gateway) from error
    except codec.UndecodableRequest as error:
        raise BadRequest(Cause.UNREADABLE, str(error)) from error
    known = APIS.get(header.api_key)
    if known is None or (header.api_version not in known.versions and header.api_key != codec.API_VERSIONS):
        raise _turned_away(frame, connection, gateway)
    if sasl is not None and not (sasl.is_served and header.api_key != SASL_HANDSHAKE):
        _check_login(sasl, connection, known, header)
    return header


def _turned_away(frame: bytes, connection: ClientConnection, gateway: Gateway) -> BadRequest:
    known = APIS.get(int.from_bytes(frame[:2], "big", signed=True))
    served = None if known is None else known.versions
    return gateway.turned_away.refuse(frame, connection.host, gateway.now_ms(), served)


def _check_login(sasl: SaslSession, connection: ClientConnection, known: Api, header: codec.Header) -> None:
    """Raise BadRequest unless the request is allowed where the client has not authenticated, or begins to again."""
    if sasl.admits(header.api_key, is_served=header.api_version in known.versions):
        return
    if sasl.is_complete:
        sasl.count_expired()
        text = f"{known.name} came after its session had ended (connections.max.reauth.ms)"
        raise BadRequest(Cause.SESSION_EXPIRED, text)
    listener = connection.listener
    how = f"set security.protocol={listener.protocol} and sasl.mechanism in the client"
    text = f"{known.name} came before the client has authenticated; {how}"
    raise BadRequest(Cause.NOT_AUTHENTICATED, text)
