"""Causes of failed TLS handshakes, and of bytes that are no frame, with the remedy if it can be known."""

from __future__ import annotations

import ssl

from muster.actors.config import Listener
from muster.actors.wire.kafka.framing import FrameTooLarge
from muster.gateway.listener import proxy_protocol
from muster.gateway.listener.complaints import Cause, Complaint
from muster.gateway.security.tls.transport import HANDSHAKE_S, HandshakeCutOff, HandshakeTimeout, NotTls

_HTTP_METHODS = frozenset((b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PRI "))
_NO_CERTIFICATE = "PEER_DID_NOT_RETURN_A_CERTIFICATE"
_VERSION = frozenset(("UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION", "WRONG_SSL_VERSION", "VERSION_TOO_LOW"))
_CIPHER = frozenset(("NO_SHARED_CIPHER", "NO_SUITABLE_SIGNATURE_ALGORITHM", "NO_SUITABLE_KEY_SHARE"))
_REFUSED = frozenset(
    (
        "TLSV1_ALERT_UNKNOWN_CA",
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
    )
)


def complaint_of(error: Exception, listener: str) -> Complaint:
    """Return the complaint about a connection of that listener that cannot use TLS."""
    match error:
        case NotTls():
            return _not_tls(error.start, listener)
        case HandshakeTimeout():
            return Complaint(Cause.TLS_TIMEOUT, f"the TLS handshake took longer than {HANDSHAKE_S:g} s")
        case HandshakeCutOff():
            text = "the client closed it in the middle of the TLS handshake: does it trust the gateway's certificate?"
            return Complaint(Cause.CUT_OFF, text, "TLS")
        case ssl.SSLCertVerificationError():
            why = error.verify_message
            return Complaint(Cause.CLIENT_CERTIFICATE, f"the client's certificate is refused: {why}", why)
        case ssl.SSLError():
            return _ssl(error)
    return Complaint(Cause.TLS_FAILED, f"TLS failed: {type(error).__name__}")


def _not_tls(start: bytes, listener: str) -> Complaint:
    if start[:4] in _HTTP_METHODS:
        hint = "this looks like HTTP: metrics are served on metrics.port"
    elif start[:5] == b"PROXY" or start.startswith(b"\r\n\r\n\0\r\nQ"):
        hint = "this looks like the PROXY protocol: set proxy.protocol.enable=true, or switch it off in the balancer"
    elif start[:1] == b"\0":
        hint = "this looks like a Kafka client without TLS: set security.protocol=SSL or SASL_SSL in the client"
    else:
        hint = "the client has to begin with a TLS handshake"
    return Complaint(Cause.PLAINTEXT, f"no TLS came on listener {listener}; {hint}")


def _ssl(error: ssl.SSLError) -> Complaint:
    reason = error.reason or "the records cannot be read"
    if reason == _NO_CERTIFICATE:
        text = "the client has no certificate, which ssl.client.auth=required demands"
        return Complaint(Cause.CLIENT_CERTIFICATE, text, "none")
    if reason in _VERSION:
        return Complaint(Cause.TLS_VERSION, "the client offers no version of ssl.enabled.protocols")
    if reason in _CIPHER:
        return Complaint(Cause.TLS_CIPHER, f"no cipher suite in common with the client ({reason})")
    if reason in _REFUSED:
        text = f"the client refuses the gateway's certificate ({reason}): does it trust the authority that signed it?"
        return Complaint(Cause.CERTIFICATE_REFUSED, text)
    return Complaint(Cause.TLS_FAILED, f"TLS failed: {reason}", reason)


def no_frame(error: FrameTooLarge, listener: Listener) -> Complaint:
    """Return the complaint, with advice if the first bytes of the "frame" show what the client speaks."""
    protocol = listener.protocol
    start = error.size.to_bytes(4, "big", signed=True)
    if start[:2] == b"\x16\x03":
        hint = f"; this looks like TLS: the listener is {protocol}, set security.protocol={protocol} in the client"
        return Complaint(Cause.TLS, f"{error}{hint}")
    if proxy_protocol.SIGNATURE.startswith(start) or proxy_protocol.VERSION_1.startswith(start):
        hint = "; this looks like the PROXY protocol: set proxy.protocol.enable=true, or switch it off in the balancer"
        return Complaint(Cause.PROXY_HEADER, f"{error}{hint}")
    if start in _HTTP_METHODS:
        hint = "; this looks like HTTP: the listener speaks Kafka's protocol, metrics are served on metrics.port"
        return Complaint(Cause.HTTP, f"{error}{hint}")
    return Complaint(Cause.FRAME_SIZE, str(error))
