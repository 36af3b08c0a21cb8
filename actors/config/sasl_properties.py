"""How clients log in, beyond the mechanisms and the file of users. Names and defaults are Kafka's."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, field_validator

from muster.actors.config.types import Int, Long, Names, Text


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
    sasl_oauthbearer_jwks_endpoint_url: Text | None = Field(
        None,
        description="Where the public keys (JWKS) are that verify tokens of OAUTHBEARER: file, http or https. They are"
        " read again when a token names another key.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Long = Field(
        3_600_000, ge=1, description="How old these keys may become, in ms, before they are read again."
    )
    sasl_oauthbearer_jwks_endpoint_ssl_truststore_location: Text | None = Field(
        None,
        description="A PEM file with the authorities of which one must have signed the certificate of that URL, with"
        " https. None: those that the system trusts.",
    )
    sasl_oauthbearer_expected_audience: Names | None = Field(
        None, description="Names with commas, of which the claim aud of a token must have one. None: it is not checked."
    )
    sasl_oauthbearer_expected_issuer: Text | None = Field(
        None, description="What the claim iss of a token must be. None: it is not checked."
    )
    sasl_oauthbearer_clock_skew_seconds: Int = Field(
        30, ge=0, description="How far the clock of the identity provider may differ, in s."
    )
    sasl_oauthbearer_sub_claim_name: Text = Field(
        "sub", description="The claim of a token that names the user.", min_length=1
    )

    @field_validator("sasl_oauthbearer_jwks_endpoint_ssl_truststore_location")
    @classmethod
    def _absolute_authorities(cls, path: str | None) -> str | None:
        return None if path is None else str(Path(path).expanduser().absolute())

    @field_validator("sasl_oauthbearer_jwks_endpoint_url")
    @classmethod
    def _url(cls, text: str | None) -> str | None:
        if text is None:
            return None
        parts = urlsplit(text)
        is_file = parts.scheme == "file" and not parts.netloc and len(parts.path) > 1
        if not is_file and (parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc):
            raise ValueError("is no URL such as https://HOST/PATH or file:///PATH")
        return text

    @property
    def oauth_audience(self) -> tuple[str, ...]:
        """Of ``sasl.oauthbearer.expected.audience``; none: any."""
        named = (self.sasl_oauthbearer_expected_audience or "").split(",")
        return tuple(name.strip() for name in named if name.strip())

    def check_oauth(self, mechanisms: Container[str]) -> None:
        """ValueError if OAUTHBEARER is among these mechanisms of listeners, and there are no keys for it."""
        if "OAUTHBEARER" in mechanisms and self.sasl_oauthbearer_jwks_endpoint_url is None:
            raise ValueError("OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url")
