"""How clients log in beyond the mechanisms and the file of users, what they may do, and what needs no login.

Sources as in :mod:`muster.actors.config.properties`.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, field_validator

from muster.actors.config.types import AuthorizerClass, Bool, Int, Long, Names, SuperUsers, Text


class SecurityProperties(BaseModel):
    """A part of :class:`muster.actors.config.properties.MusterConfig`."""

    # authentication
    connections_max_reauth_ms: Long = Field(
        0,
        ge=0,
        description="Lifetime of a session, after which the client has to authenticate again on its connection "
        "(KIP-368), in ms; 0: no end. Connections of clients that do not are closed.",
    )
    sasl_server_max_receive_size: Int = Field(
        524_288, ge=1, description="Maximum size of a request of a client that is not authenticated, in bytes."
    )
    connection_failed_authentication_delay_ms: Int = Field(
        100,
        ge=0,
        description="Delay of the response to a failed login, and of the end of its connection, in ms; less than "
        "connections.max.idle.ms.",
    )
    sasl_oauthbearer_jwks_endpoint_url: Text | None = Field(
        None,
        description="URL of the public keys (JWKS) that verify tokens of OAUTHBEARER: file, http or https. They are "
        "read again when a token names another key.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Long = Field(
        3_600_000,
        ge=1,
        description="Age at which the keys of sasl.oauthbearer.jwks.endpoint.url are read again, in ms.",
    )
    sasl_oauthbearer_jwks_endpoint_ssl_truststore_location: Text | None = Field(
        None,
        description="PEM file with the authorities for the certificate of sasl.oauthbearer.jwks.endpoint.url, with "
        "https. None: those that the system trusts.",
    )
    sasl_oauthbearer_expected_audience: Names | None = Field(
        None, description="Names with commas: the claim aud of a token must have one of them. None: it is not checked."
    )
    sasl_oauthbearer_expected_issuer: Text | None = Field(
        None, description="Required claim iss of a token. None: it is not checked."
    )
    sasl_oauthbearer_clock_skew_seconds: Int = Field(
        30, ge=0, description="How far the clock of the identity provider may differ, in s."
    )
    sasl_oauthbearer_sub_claim_name: Text = Field(
        "sub", description="Claim of a token that names the user.", min_length=1
    )

    # authorization
    authorizer_class_name: AuthorizerClass = Field(
        "",
        description="Whether ACLs decide what clients may do: org.apache.kafka.metadata.authorizer.StandardAuthorizer "
        "or kafka.security.authorizer.AclAuthorizer, which mean the same here. Empty: everyone may do everything.",
    )
    super_users: SuperUsers = Field(
        "", description="Principals that may do everything, as User:NAME with semicolons; ACLs do not apply to them."
    )
    allow_everyone_if_no_acl_found: Bool = Field(
        False, description="Whether everyone may do everything with a resource that has no ACLs."
    )

    # the HTTP port, and ports without authentication
    http_tokens_file: Text | None = Field(
        None,
        description="Property file of the users and bearer tokens of the HTTP port, as written by muster token add; "
        "every node must be able to read it. Changes apply to the next request.",
    )
    metrics_hash_names: Bool = Field(
        False,
        description="Whether /metrics has hashes in place of the groups, topics and clients that the caller may not "
        "DESCRIBE, equal on all gateways and after a restart. false: their series are summed up, as ~other.",
    )
    listeners_unauthenticated_enable: Bool = Field(
        False,
        description="Whether listeners and the HTTP port may be open to other hosts without authentication; otherwise "
        "muster up refuses such ports. The same as muster up --insecure. Not needed for ports on loopback.",
    )

    @field_validator("http_tokens_file", "sasl_oauthbearer_jwks_endpoint_ssl_truststore_location")
    @classmethod
    def _absolute_path(cls, path: str | None) -> str | None:
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
        """Audiences in ``sasl.oauthbearer.expected.audience``; none: any."""
        named = (self.sasl_oauthbearer_expected_audience or "").split(",")
        return tuple(name.strip() for name in named if name.strip())

    def check_oauth(self, mechanisms: Container[str]) -> None:
        """Raise ValueError if OAUTHBEARER is among these mechanisms of listeners, and there are no keys for it."""
        if "OAUTHBEARER" in mechanisms and self.sasl_oauthbearer_jwks_endpoint_url is None:
            raise ValueError("OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url")

    @property
    def super_user_principals(self) -> frozenset[str]:
        """Principals in ``super.users``."""
        return frozenset(filter(None, self.super_users.split(";")))

    def authorizer_problem(self, authenticates: bool) -> str | None:
        """Why no client could ever change an ACL. ``authenticates``: whether a listener makes clients log in."""
        if not self.authorizer_class_name or self.super_users or self.allow_everyone_if_no_acl_found or authenticates:
            return None
        return (
            "authorizer.class.name needs super.users or a listener where clients log in: else no client could ever "
            "create an ACL"
        )
