"""Login and TLS of a client: a property file as Kafka's tools take it."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import javaproperties
from pydantic import SecretStr

from muster.actors.config.tls.settings import KeyStore, TrustStore
from muster.gateway.client.errors import InvalidClientConfig
from muster.gateway.security.mechanism_names import MECHANISMS
from muster.gateway.security.tls.contexts import load_keys
from muster.gateway.security.tls.stores import Keys, StoreError, pem_of, read_keys, read_trusted

_JAAS = re.compile(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_CHECKS = "ssl.endpoint.identification.algorithm"


@dataclass(frozen=True, slots=True)
class Login:
    mechanism: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClientTls:
    """Trusted authorities and the client's certificate."""

    authorities: str | None
    """PEM; None: the system's."""
    keys: Keys | None = None
    checks_host: bool = True

    def context(self) -> ssl.SSLContext:
        """Return the context for Python's sockets."""
        context = ssl.create_default_context(cadata=self.authorities)
        context.check_hostname = self.checks_host
        if self.keys is not None:
            load_keys(context, self.keys)
        return context


@dataclass(frozen=True, slots=True)
class Security:
    """Properties with which a client reaches a listener."""

    protocol: str
    login: Login | None
    tls: ClientTls

    @property
    def uses_tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    def for_librdkafka(self) -> dict[str, str]:
        """Return the properties of a client of librdkafka. They have the password, and the private key in PEM."""
        found = {"security.protocol": self.protocol}
        if self.login is not None:
            found["sasl.mechanism"] = self.login.mechanism
            found["sasl.username"], found["sasl.password"] = self.login.user, self.login.password
        if self.uses_tls:
            if self.tls.authorities is not None:
                found["ssl.ca.pem"] = self.tls.authorities
            if self.tls.keys is not None:
                found["ssl.certificate.pem"] = pem_of(self.tls.keys.chain).decode()
                found["ssl.key.pem"] = self.tls.keys.key_pem().decode()
            found[_CHECKS] = "https" if self.tls.checks_host else "none"
        return found


def read_security(file: Path) -> Security:
    """Read the file. Raises InvalidClientConfig."""
    try:
        content = javaproperties.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidClientConfig(f"{file} is not a readable property file: {error}") from error
    properties = {name: value.strip() for name, value in content.items()}
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise InvalidClientConfig(f"{file}: security.protocol={protocol} is none of {', '.join(_PROTOCOLS)}")
    login = _login(file, properties) if protocol.startswith("SASL_") else None
    try:
        return Security(protocol, login, _tls(properties))
    except (StoreError, OSError) as error:
        raise InvalidClientConfig(f"{file}: {error}") from None


def _login(file: Path, properties: Mapping[str, str]) -> Login:
    mechanism = properties.get("sasl.mechanism", "").upper()
    if mechanism not in MECHANISMS:
        protocols = " or ".join(_PROTOCOLS[2:])
        raise InvalidClientConfig(
            f"{file}: security.protocol={protocols} needs sasl.mechanism, one of {', '.join(MECHANISMS)}"
        )
    jaas = {
        name: re.sub(r"\\(.)", r"\1", value) for name, value in _JAAS.findall(properties.get("sasl.jaas.config", ""))
    }
    user = properties.get("sasl.username", jaas.get("username"))
    password = properties.get("sasl.password", jaas.get("password"))
    if not user or not password:
        raise InvalidClientConfig(f"{file}: set sasl.username and sasl.password, or both in sasl.jaas.config")
    return Login(mechanism, user, password)


def _tls(properties: Mapping[str, str]) -> ClientTls:
    """Read Kafka's names, and librdkafka's. Raises StoreError or OSError."""
    secrets = {name: SecretStr(value) for name, value in properties.items()}
    trusted = read_trusted(
        TrustStore(
            type=properties.get("ssl.truststore.type", "PEM").upper(),
            location=properties.get("ssl.truststore.location", properties.get("ssl.ca.location")),
            password=secrets.get("ssl.truststore.password"),
            certificates=secrets.get("ssl.truststore.certificates"),
        )
    )
    key, chain = secrets.get("ssl.keystore.key"), secrets.get("ssl.keystore.certificate.chain")
    if "ssl.key.location" in properties and "ssl.certificate.location" in properties:
        key = SecretStr(Path(properties["ssl.key.location"]).read_text(encoding="utf-8"))
        chain = SecretStr(Path(properties["ssl.certificate.location"]).read_text(encoding="utf-8"))
    location = properties.get("ssl.keystore.location")
    store = KeyStore(
        type=properties.get("ssl.keystore.type", "PEM").upper(),
        location=location,
        password=secrets.get("ssl.keystore.password"),
        key_password=secrets.get("ssl.key.password"),
        key=key,
        chain=chain,
    )
    return ClientTls(
        authorities=None if trusted is None else pem_of(trusted).decode(),
        keys=read_keys(store) if location or (key and chain) else None,
        checks_host=properties.get(_CHECKS, "https").lower() == "https",
    )
