"""The reasons for closing a client's connection, for the log and for /metrics."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Cause(StrEnum):
    """Why a connection was closed: the label ``reason`` of ``muster_connections_closed_total``."""

    TLS = "tls"
    PLAINTEXT = "plaintext"
    TLS_VERSION = "tls_version"
    TLS_CIPHER = "tls_cipher"
    TLS_TIMEOUT = "tls_timeout"
    TLS_FAILED = "tls_failed"
    CLIENT_CERTIFICATE = "client_certificate"
    CERTIFICATE_REFUSED = "certificate_refused"
    HTTP = "http"
    PROXY_HEADER = "proxy_header"
    FRAME_SIZE = "frame_size"
    UNREADABLE = "unreadable"
    NOT_SERVED = "not_served"
    NOT_AUTHENTICATED = "not_authenticated"
    AUTHENTICATION_FAILED = "authentication_failed"
    SESSION_EXPIRED = "session_expired"
    TOO_MANY_LOGINS = "too_many_logins"
    PRODUCE_FAILED = "produce_failed"
    CUT_OFF = "cut_off"
    MAX_CONNECTIONS_PER_IP = "max_connections_per_ip"
    CONNECTION_RATE = "connection_rate"
    NOT_TAKEN = "not_taken"
    FAULT = "fault"
    INTERNAL_ERROR = "internal_error"
    GIVEN_UP = "given_up"
    HOST_LOST = "host_lost"
    GATEWAY_STOPS = "gateway_stops"


class Complaint(NamedTuple):
    """Log line about a connection that is closed."""

    cause: Cause
    text: str
    about: str = ""
    """The Kafka API concerned, if any: complaints with one cause are rate-limited for each API separately."""
    is_news: bool | None = None
    """Whether the log gets it, if that needs no limit."""


class BadRequest(ValueError):
    """The connection cannot continue: the input is no request that this gateway serves."""

    def __init__(self, cause: Cause, text: str, about: str = "", is_news: bool | None = None) -> None:
        super().__init__(text)
        self.complaint = Complaint(cause, text, about, is_news)
