"""Properties of TLS: Kafka's SslConfigs and BrokerSecurityConfigs, with their defaults unless said otherwise.

All of them may be set for one listener (``listener.name.NAME.ssl...``), as in KIP-103.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field, field_validator

from muster.actors.config.tls.principal_rules import PrincipalRules
from muster.actors.config.types import Bool, ClientAuth, HttpProtocol, Password, StoreType, Suites, Text, TlsVersions

_TYPES = ("PEM", "PKCS12")
_JKS = (
    "is not supported: convert it, for example with keytool -importkeystore -srckeystore OLD -destkeystore NEW.p12 "
    "-deststoretype PKCS12, and set the type PKCS12"
)


class SslProperties(BaseModel):
    """A part of :class:`muster.actors.config.properties.MusterConfig`."""

    ssl_keystore_type: StoreType = Field(
        "PEM",
        description="PEM or PKCS12: the format of the key store. Kafka's default, JKS, is not supported.",
    )
    ssl_keystore_location: Text | None = Field(
        None,
        description="File with the private key and its certificate chain, the leaf first; every node must be able to "
        "read it. A file that changes is used for new connections within seconds.",
    )
    ssl_keystore_password: Password | None = Field(None, description="Password of a PKCS12 key store.")
    ssl_key_password: Password | None = Field(None, description="Password of an encrypted PEM private key (PKCS#8).")
    ssl_keystore_key: Password | None = Field(
        None, description="Private key as PEM text, instead of ssl.keystore.location (KIP-651)."
    )
    ssl_keystore_certificate_chain: Password | None = Field(
        None, description="Certificate chain as PEM text, the leaf first; goes with ssl.keystore.key."
    )
    ssl_truststore_type: StoreType = Field("PEM", description="PEM or PKCS12: the format of the trust store.")
    ssl_truststore_location: Text | None = Field(
        None,
        description="File with the certificates of the authorities whose client certificates are accepted; none: those "
        "that the system trusts.",
    )
    ssl_truststore_password: Password | None = Field(None, description="Password of a PKCS12 trust store.")
    ssl_truststore_certificates: Password | None = Field(
        None, description="Certificates as PEM text, instead of ssl.truststore.location (KIP-651)."
    )
    ssl_client_auth: ClientAuth = Field(
        "none",
        description="none, requested or required: whether clients present a certificate. With the protocol SASL_SSL "
        "only as listener.name.NAME.ssl.client.auth.",
    )
    ssl_enabled_protocols: TlsVersions = Field(
        "TLSv1.2,TLSv1.3", description="TLSv1.2, TLSv1.3 or both with a comma: the versions of TLS."
    )
    ssl_cipher_suites: Suites | None = Field(
        None,
        description="Cipher suites with commas, by their standard or OpenSSL names; none: OpenSSL's defaults. The "
        "three of TLS 1.3 can only be allowed or refused together.",
    )
    ssl_principal_mapping_rules: Text = Field(
        "DEFAULT",
        description="RULE:pattern/replacement/[LU] or DEFAULT with commas: how the distinguished name of a client's "
        "certificate becomes its principal. The first whose pattern matches the whole name wins; if none does, the "
        "client is refused.",
    )
    ssl_allow_dn_changes: Bool = Field(
        False, description="Whether a new certificate may have another distinguished name than the one before (reload)."
    )
    ssl_allow_san_changes: Bool = Field(
        False, description="Whether a new certificate may lack alternative names that the one before had (reload)."
    )

    metrics_security_protocol: HttpProtocol = Field(
        "PLAINTEXT",
        description="PLAINTEXT or SSL: whether the HTTP port (/metrics and the other paths) is HTTPS. It uses "
        "listener.name.metrics.ssl.* where they are set, else ssl.*, also ssl.client.auth.",
    )
    internal_ssl_enable: Bool = Field(
        False,
        description="Whether gateways and actors of different nodes use TLS between each other. The keys are derived "
        "from the cluster's secret: no file is needed.",
    )

    @field_validator("ssl_keystore_type", "ssl_truststore_type")
    @classmethod
    def _supported(cls, kind: str) -> str:
        if kind == "JKS":
            raise ValueError(_JKS)
        if kind not in _TYPES:
            raise ValueError(f"is none of {', '.join(_TYPES)}")
        return kind

    @field_validator("ssl_keystore_location", "ssl_truststore_location")
    @classmethod
    def _absolute_stores(cls, path: str | None) -> str | None:
        return None if path is None else str(Path(path).expanduser().absolute())

    @field_validator("ssl_principal_mapping_rules")
    @classmethod
    def _rules(cls, text: str) -> str:
        PrincipalRules.parse(text)
        return text


SSL_KEYS = frozenset(name.replace("_", ".") for name in SslProperties.model_fields if name.startswith("ssl_"))
RELOADED = frozenset(
    {
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.allow.dn.changes",
        "ssl.allow.san.changes",
    }
)
"""Properties that can be altered while the cluster runs, for one listener.

Keys and passwords cannot: ZooKeeper would keep them unencrypted.
"""
