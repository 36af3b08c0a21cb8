"""Key stores and trust stores: PEM (KIP-651) and PKCS12, from a file or from text.

No error message has a password or a part of a key in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import pkcs12
from pydantic import SecretStr

from muster.actors.config.tls.settings import KeyStore, TrustStore

_JKS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\s.*?-----END \1-----", re.DOTALL)
_KEYS = (b"PRIVATE KEY", b"ENCRYPTED PRIVATE KEY")
_MAX_BYTES = 16 << 20


class StoreError(ValueError):
    """A store cannot be used. The message names the property, and has nothing of the store's content."""


@dataclass(frozen=True, slots=True)
class Keys:
    """A private key with its certificates, the leaf first."""

    key: PrivateKeyTypes = field(repr=False)
    chain: tuple[x509.Certificate, ...]

    @property
    def leaf(self) -> x509.Certificate:
        return self.chain[0]

    def pem(self) -> bytes:
        """Return the certificates and the unencrypted key, for OpenSSL."""
        return pem_of(self.chain) + self.key_pem()

    def key_pem(self) -> bytes:
        """Return the unencrypted key."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the unencrypted key, for a client's tasks on other nodes."""
        return _pem_keys, (self.key_pem(), pem_of(self.chain), None, "a pickled key")


def pem_of(certificates: tuple[x509.Certificate, ...]) -> bytes:
    """Return the certificates as PEM."""
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def read_keys(store: KeyStore) -> Keys:
    """Return the key and the certificates of the store. Raises StoreError."""
    if store.location is None:
        assert store.key is not None
        assert store.chain is not None
        return _pem_keys(_bytes(store.key), _bytes(store.chain), _bytes(store.key_password), "ssl.keystore.key")
    where = f"ssl.keystore.location={store.location}"
    data = _read(store.location, where)
    if store.type == "PKCS12":
        return _pkcs12_keys(data, _bytes(store.password), where)
    return _pem_keys(data, data, _bytes(store.key_password), where)


def read_trusted(store: TrustStore) -> tuple[x509.Certificate, ...] | None:
    """Return the trusted certificates; None if the store names neither a file nor a text. Raises StoreError."""
    if store.certificates is not None:
        return _pem_certificates(_bytes(store.certificates) or b"", "ssl.truststore.certificates")
    if store.location is None:
        return None
    where = f"ssl.truststore.location={store.location}"
    data = _read(store.location, where)
    if store.type == "PKCS12":
        held = _open_pkcs12(data, _bytes(store.password), where)
        trusted = tuple(each.certificate for each in (held.cert, *held.additional_certs) if each is not None)
        if not trusted:
            raise StoreError(f"{where} has no certificate")
        return trusted
    return _pem_certificates(data, where)


def _read(location: str, where: str) -> bytes:
    try:
        with Path(location).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise StoreError(f"{where} cannot be read: {error.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise StoreError(f"{where} is too large for a store")
    if data[:4] in _JKS:
        raise StoreError(f"{where} is a JKS or JCEKS store, which is not supported; convert it to PKCS12 with keytool")
    return data


def _pem_keys(key_text: bytes | None, chain_text: bytes | None, password: bytes | None, where: str) -> Keys:
    blocks = [found for found in _BLOCK.finditer(key_text or b"") if found[1].endswith(b"PRIVATE KEY")]
    if len(blocks) != 1 or blocks[0][1] not in _KEYS:
        raise StoreError(
            f"{where} must have exactly one PKCS#8 key (BEGIN PRIVATE KEY or BEGIN ENCRYPTED PRIVATE KEY); "
            "openssl pkcs8 -topk8 converts others"
        )
    is_encrypted = blocks[0][1] == b"ENCRYPTED PRIVATE KEY"
    if is_encrypted and password is None:
        raise StoreError(f"{where} has an encrypted key: set ssl.key.password")
    try:
        key = serialization.load_pem_private_key(blocks[0][0], password if is_encrypted else None)
    except Exception:  # cryptography raises several kinds; none may show what was in the file
        why = "the key cannot be decrypted with ssl.key.password" if is_encrypted else "the key cannot be read"
        raise StoreError(f"{where}: {why}") from None
    return _checked(key, _pem_certificates(chain_text or b"", where), where)


def _pem_certificates(text: bytes, where: str) -> tuple[x509.Certificate, ...]:
    found = [block[0] for block in _BLOCK.finditer(text) if block[1] == b"CERTIFICATE"]
    if not found:
        raise StoreError(f"{where} has no certificate")
    try:
        return tuple(x509.load_pem_x509_certificate(each) for each in found)
    except ValueError:
        raise StoreError(f"{where} has a certificate that cannot be read") from None


def _open_pkcs12(data: bytes, password: bytes | None, where: str) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(data, password)
    except Exception:  # the same for a wrong password and for what is no PKCS12
        raise StoreError(f"{where} is no PKCS12 store, or its password is another") from None


def _pkcs12_keys(data: bytes, password: bytes | None, where: str) -> Keys:
    held = _open_pkcs12(data, password, where)
    if held.key is None or held.cert is None:
        raise StoreError(f"{where} has no private key with a certificate")
    others = [each.certificate for each in held.additional_certs]
    return _checked(held.key, tuple(_in_order(held.cert.certificate, others)), where)


def _in_order(leaf: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """Return the leaf, its issuer, and so on; PKCS12 has no order."""
    chain = [leaf]
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((each for each in others if each.subject == chain[-1].issuer and each not in chain), None)
        if issuer is None:
            break
        chain.append(issuer)
    return chain


def _checked(key: PrivateKeyTypes, chain: tuple[x509.Certificate, ...], where: str) -> Keys:
    if key.public_key() != chain[0].public_key():
        raise StoreError(f"{where}: the first certificate is not that of the key")
    return Keys(key, chain)


def _bytes(secret: SecretStr | None) -> bytes | None:
    return None if secret is None else secret.get_secret_value().encode()
