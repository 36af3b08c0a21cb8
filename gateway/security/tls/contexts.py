"""OpenSSL contexts that listeners serve with, made of their settings, and the comparison of a new one with the old."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cryptography import x509

from muster.actors.config.tls.principal_rules import PrincipalRules
from muster.actors.config.tls.settings import TlsSettings
from muster.actors.wire.sockets.options import load_pem
from muster.gateway.security.tls.names import distinguished_name
from muster.gateway.security.tls.stores import Keys, StoreError, pem_of, read_keys, read_trusted

_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_TLS_1_3 = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})
_SAN = "the alternative names"


class ChangeRefused(ValueError):
    """A new certificate must not take the place of the one in use. The message says why."""


@dataclass(frozen=True, slots=True)
class Served:
    """A context with the certificate that it presents."""

    settings: TlsSettings
    context: ssl.SSLContext
    subject: str
    names: frozenset[str]
    """Alternative names, with their types."""
    not_after: datetime
    rules: PrincipalRules
    _keys: Keys = field(repr=False, compare=False)

    def principal_of(self, certificate: bytes) -> str | None:
        """Return the name of a client with that certificate (DER); None if it is malformed, or no rule matches."""
        try:
            return self.rules.name(distinguished_name(x509.load_der_x509_certificate(certificate).subject))
        except ValueError:  # OpenSSL is more lenient
            return None

    def client_context(self) -> ssl.SSLContext:
        """Return a context for clients within the cluster: it takes this certificate, and what its authority signed.

        Names are not checked: gateways are reached at addresses that their certificate need not have.
        """
        return _client(self._keys)

    def trust(self, client: ssl.SSLContext) -> None:
        """Have a context of :meth:`client_context` take this certificate, too."""
        client.load_verify_locations(cadata=pem_of(self._keys.chain[-1:]).decode())

    def days_left(self) -> float:
        """Until the certificate expires; negative afterwards."""
        return (self.not_after - datetime.now(UTC)).total_seconds() / 86_400

    def check_successor(self, new: Served) -> None:
        """Raise ChangeRefused if the new certificate may not take the place of this one, as in Kafka."""
        if new.subject != self.subject and not new.settings.allow_dn_changes:
            raise ChangeRefused(
                f"the certificate of {new.subject} is not that of {self.subject}; ssl.allow.dn.changes=true allows it"
            )
        lost = self.names - new.names
        if lost and not new.settings.allow_san_changes:
            raise ChangeRefused(
                f"the new certificate lacks {_SAN} {', '.join(sorted(lost))}; ssl.allow.san.changes=true allows it"
            )
        new.check_handshake()

    def check_handshake(self) -> None:
        """Raise ChangeRefused if clients that trust the end of its chain cannot connect, e.g. since it expired."""
        try:
            _handshake(_context(self.settings, self._keys, None, verify=ssl.CERT_NONE), _client(self._keys))
        except ssl.SSLError as error:
            why = getattr(error, "verify_message", None) or error.reason or "no handshake"
            raise ChangeRefused(f"a handshake with the new certificate fails: {why}") from None


def load(settings: TlsSettings) -> Served:
    """Read the stores and make a context of them. Blocks. Raises StoreError."""
    keys = read_keys(settings.keystore)
    trusted = read_trusted(settings.truststore)
    names = _alternative_names(keys.leaf)
    return Served(
        settings=settings,
        context=_context(settings, keys, trusted, verify=_VERIFY[settings.client_auth]),
        subject=distinguished_name(keys.leaf.subject),
        names=names,
        not_after=keys.leaf.not_valid_after_utc,
        rules=PrincipalRules.parse(settings.mapping_rules),
        _keys=keys,
    )


def _alternative_names(certificate: x509.Certificate) -> frozenset[str]:
    """By kind. Raises StoreError."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise StoreError(f"the certificate has an extension that cannot be read: {error}") from None
    return frozenset(f"{type(each).__name__}:{each.value}" for each in names)


def _context(
    settings: TlsSettings, keys: Keys, trusted: tuple[x509.Certificate, ...] | None, *, verify: ssl.VerifyMode
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0  # with TLS 1.3, every connection shows its certificate
    versions = sorted(_VERSIONS[each] for each in settings.versions)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    if settings.cipher_suites:
        _restrict(context, settings.cipher_suites)
    load_keys(context, keys)
    context.verify_mode = verify
    if verify is not ssl.CERT_NONE:
        if trusted is None:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        else:
            context.load_verify_locations(cadata=pem_of(trusted).decode())
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as Java: what is in the store is trusted
    return context


def load_keys(context: ssl.SSLContext, keys: Keys) -> None:
    """Have the context present them. Raises StoreError."""
    try:
        load_pem(context, keys.pem())
    except ssl.SSLError as error:
        raise StoreError(f"OpenSSL does not take the key and its certificate: {error.reason}") from None


def _restrict(context: ssl.SSLContext, suites: tuple[str, ...]) -> None:
    """Restrict the suites. Those of TLS 1.3 are all allowed or none: Python cannot choose between them.

    Raises StoreError.
    """
    newer, older = _TLS_1_3 & set(suites), [each for each in suites if each not in _TLS_1_3]
    if newer and newer != _TLS_1_3 and context.maximum_version == ssl.TLSVersion.TLSv1_3:
        raise StoreError(
            f"ssl.cipher.suites has {', '.join(sorted(newer))} of TLS 1.3; name all of {', '.join(sorted(_TLS_1_3))}, "
            "or none, which leaves TLS 1.2"
        )
    if not newer:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if context.minimum_version > context.maximum_version:
        raise StoreError("ssl.cipher.suites has no suite of ssl.enabled.protocols")
    for suite in older:
        try:
            context.set_ciphers(openssl_name(suite))
        except ssl.SSLError:
            raise StoreError(f"ssl.cipher.suites has {suite}, which OpenSSL does not have") from None
    if older:
        context.set_ciphers(":".join(map(openssl_name, older)))


def openssl_name(suite: str) -> str:
    """OpenSSL's name of a cipher suite of TLS 1.2, for the standard name; others as they are."""
    if not suite.startswith("TLS_") or "_WITH_" not in suite:
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = re.sub(r"(AES|CAMELLIA|ARIA)_(\d+)_", r"\1\2_", cipher).replace("_CBC", "")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return "-".join(part.replace("_", "-") for part in ("" if exchange == "RSA" else exchange, cipher) if part)


def _client(keys: Keys) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=pem_of(keys.chain[-1:]).decode())
    return context


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """One in memory. Raises SSLError."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [server.wrap_bio(up, down, server_side=True), client.wrap_bio(down, up)]
    waiting = list(reversed(sides))
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
        if not waiting:
            return
    raise ssl.SSLError("no end")
