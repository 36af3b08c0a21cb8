"""Certificates for tests: an authority, and keys with certificates that it signed. Elliptic curves, so it is fast."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

_PEM, _PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
SERVER = (x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1")))


_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True)
class Issued:
    """A key with its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    authority: x509.Certificate

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(_PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(_PEM, _PKCS8, encryption).decode()

    def write(self, file: Path, password: str | None = None) -> Path:
        """One PEM file with the key and the chain."""
        chain = self.certificate_pem + self.authority.public_bytes(_PEM).decode()
        file.write_text(f"Bag Attributes: none\n{self.key_pem(password)}between\n{chain}")
        return file

    def write_pkcs12(self, file: Path, password: str) -> Path:
        encryption = serialization.BestAvailableEncryption(password.encode())
        held = pkcs12.serialize_key_and_certificates(b"x", self.key, self.certificate, [self.authority], encryption)
        file.write_bytes(held)
        return file


class Authority:
    """Signs certificates."""

    def __init__(self, name: str = "Test CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = _signed(self._name, self._key, self._name, self._key, (), is_authority=True)

    @property
    def pem(self) -> str:
        """Its certificate."""
        return self.certificate.public_bytes(_PEM).decode()

    def write(self, file: Path) -> Path:
        """Write a PEM file with its certificate."""
        file.write_text(self.pem)
        return file

    def issue(
        self,
        name: str,
        *,
        names: tuple[x509.GeneralName, ...] = SERVER,
        extensions: tuple[x509.ExtensionType, ...] = (),
        days: float = 90,
        began_days: float = 1,
    ) -> Issued:
        """``name``: as in RFC 4514, CN=a,O=b. ``days`` until it expires, negative if it has."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name.from_rfc4514_string(name)
        if names:
            extensions = (x509.SubjectAlternativeName(names), *extensions)
        certificate = _signed(subject, key, self._name, self._key, extensions, days=days, began_days=began_days)
        return Issued(key, certificate, self.certificate)


def _signed(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    extensions: tuple[x509.ExtensionType, ...],
    *,
    is_authority: bool = False,
    days: float = 90,
    began_days: float = 1,
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=began_days))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        # RFC 5280 demands these; Python does, from 3.13 on.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if is_authority:
        builder = builder.add_extension(_SIGNS, critical=True)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())
