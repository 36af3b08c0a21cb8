"""How one listener uses TLS: the properties that hold for it, checked without reading a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStore:
    """Where the private key and its certificate chain are: a file, or text."""

    type: str
    location: str | None
    password: SecretStr | None
    key_password: SecretStr | None
    key: SecretStr | None
    chain: SecretStr | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustStore:
    """Where the certificates of trusted authorities are: a file, text, or (neither) where the system has them."""

    type: str
    location: str | None
    password: SecretStr | None
    certificates: SecretStr | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """TLS of one listener. Equal settings mean the same files; the files may have changed."""

    listener: str
    keystore: KeyStore
    truststore: TrustStore
    client_auth: str
    """none, requested or required."""
    versions: tuple[str, ...]
    cipher_suites: tuple[str, ...] = ()
    """None: OpenSSL's defaults."""
    mapping_rules: str = field(default="DEFAULT")
    allow_dn_changes: bool = False
    allow_san_changes: bool = False


def tls_settings(listener: str, value: Callable[[str], Any], *, client_auth: str | None = None) -> TlsSettings:
    """Return the settings of that listener. Raises ValueError, which names the property that is missing or too many.

    ``value`` gives the value of a property for the listener; ``client_auth`` takes the place of ssl.client.auth.
    """
    keystore = KeyStore(
        type=value("ssl.keystore.type"),
        location=value("ssl.keystore.location"),
        password=value("ssl.keystore.password"),
        key_password=value("ssl.key.password"),
        key=value("ssl.keystore.key"),
        chain=value("ssl.keystore.certificate.chain"),
    )
    truststore = TrustStore(
        type=value("ssl.truststore.type"),
        location=value("ssl.truststore.location"),
        password=value("ssl.truststore.password"),
        certificates=value("ssl.truststore.certificates"),
    )
    if (problem := _keystore_problem(keystore) or _truststore_problem(truststore)) is not None:
        raise ValueError(f"listener {listener}: {problem}")
    return TlsSettings(
        listener=listener,
        keystore=keystore,
        truststore=truststore,
        client_auth=client_auth or value("ssl.client.auth"),
        versions=tuple(value("ssl.enabled.protocols").split(",")),
        cipher_suites=tuple(part.strip() for part in (value("ssl.cipher.suites") or "").split(",") if part.strip()),
        mapping_rules=value("ssl.principal.mapping.rules"),
        allow_dn_changes=value("ssl.allow.dn.changes"),
        allow_san_changes=value("ssl.allow.san.changes"),
    )


def _keystore_problem(store: KeyStore) -> str | None:
    if store.location is not None and (store.key is not None or store.chain is not None):
        return "ssl.keystore.location excludes ssl.keystore.key and ssl.keystore.certificate.chain"
    if (store.key is None) != (store.chain is None):
        return "ssl.keystore.key and ssl.keystore.certificate.chain go together"
    if store.location is None and store.key is None:
        return "TLS needs a key: set ssl.keystore.location, or ssl.keystore.key and ssl.keystore.certificate.chain"
    if store.key is not None and store.type != "PEM":
        return f"ssl.keystore.key needs ssl.keystore.type=PEM, not {store.type}"
    if store.type == "PEM" and store.password is not None:
        return "ssl.keystore.password is for PKCS12; the key of a PEM file has ssl.key.password"
    return None


def _truststore_problem(store: TrustStore) -> str | None:
    if store.location is not None and store.certificates is not None:
        return "ssl.truststore.location excludes ssl.truststore.certificates"
    if store.certificates is not None and store.type != "PEM":
        return f"ssl.truststore.certificates needs ssl.truststore.type=PEM, not {store.type}"
    if store.type == "PEM" and store.password is not None:
        return "ssl.truststore.password is for PKCS12; a PEM file has none"
    return None
