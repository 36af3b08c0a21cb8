"""Key stores, trust stores, contexts and names."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from muster.actors.config import MusterConfig
from muster.gateway.security.tls.contexts import load, openssl_name
from muster.gateway.security.tls.listeners import settings_of
from muster.gateway.security.tls.names import distinguished_name
from muster.gateway.security.tls.stores import StoreError
from tests.certificates import Authority

CA = Authority()
ISSUED = CA.issue("CN=gateway,O=Test")
SECRET = "open sesame"
EMAIL = NameOID.EMAIL_ADDRESS


def loaded(properties: dict[str, str]) -> str:
    config = MusterConfig.from_properties({"listeners": "SSL://:1", **properties})
    return load(settings_of(config)["SSL"]).subject


def test_every_form_of_a_store(tmp_path: Path) -> None:
    pem, encrypted = ISSUED.write(tmp_path / "a.pem"), ISSUED.write(tmp_path / "b.pem", SECRET)
    bundle = ISSUED.write_pkcs12(tmp_path / "c.p12", SECRET)
    inline = {"ssl.keystore.certificate.chain": ISSUED.certificate_pem}
    for properties in (
        {"ssl.keystore.location": str(pem)},
        {"ssl.keystore.location": str(encrypted), "ssl.key.password": SECRET},
        {"ssl.keystore.location": str(bundle), "ssl.keystore.type": "PKCS12", "ssl.keystore.password": SECRET},
        {**inline, "ssl.keystore.key": ISSUED.key_pem()},
        {**inline, "ssl.keystore.key": ISSUED.key_pem(SECRET), "ssl.key.password": SECRET},
        {"ssl.keystore.location": str(pem), "ssl.truststore.certificates": CA.pem, "ssl.client.auth": "required"},
        {"ssl.keystore.location": str(pem), "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
    ):
        assert loaded(properties) == "CN=gateway,O=Test"


@pytest.mark.parametrize(
    ("content", "more", "message"),
    [
        (b"\xfe\xed\xfe\xed\0\0\0\2", {}, "is a JKS or JCEKS store, which is not supported; convert it to PKCS12"),
        (b"", {}, "must have exactly one PKCS#8 key"),
        (ISSUED.key_pem().encode() * 2, {}, "must have exactly one PKCS#8 key"),
        (ISSUED.key_pem().encode(), {}, "has no certificate"),
        ((ISSUED.key_pem() + CA.pem).encode(), {}, "the first certificate is not that of the key"),
        ((ISSUED.key_pem(SECRET) + CA.pem).encode(), {}, "has an encrypted key: set ssl.key.password"),
        (
            (ISSUED.key_pem("another") + CA.pem).encode(),
            {"ssl.key.password": SECRET},
            "the key cannot be decrypted with ssl.key.password",
        ),
        (
            b"no store",
            {"ssl.keystore.type": "PKCS12", "ssl.keystore.password": SECRET},
            "is no PKCS12 store, or its password is another",
        ),
        (None, {}, "cannot be read: No such file or directory"),
    ],
    ids=[
        "jks",
        "empty",
        "two-keys",
        "no-certificate",
        "another-key",
        "encrypted",
        "another-password",
        "pkcs12",
        "missing",
    ],
)
def test_what_is_wrong_with_a_store(tmp_path: Path, content: bytes | None, more: dict[str, str], message: str) -> None:
    file = tmp_path / "store"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(StoreError) as refused:
        loaded({"ssl.keystore.location": str(file), **more})
    assert message in str(refused.value)
    assert f"ssl.keystore.location={file}" in str(refused.value)
    assert SECRET not in f"{refused.value} {refused.value.__cause__!r}"


def test_an_extension_that_cannot_be_read(tmp_path: Path) -> None:
    garbage = x509.UnrecognizedExtension(x509.SubjectAlternativeName.oid, b"no sequence")
    issued = CA.issue("CN=gateway", names=(), extensions=(garbage,))
    with pytest.raises(StoreError, match="the certificate has an extension that cannot be read"):
        loaded({"ssl.keystore.location": str(issued.write(tmp_path / "store"))})


@pytest.mark.parametrize(
    ("suites", "message"),
    [
        ("TLS_NO_SUCH_WITH_ANYTHING", "has TLS_NO_SUCH_WITH_ANYTHING, which OpenSSL does not have"),
        ("TLS_AES_256_GCM_SHA384", "name all of TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384, TLS_CHACHA20"),
    ],
)
def test_cipher_suites_that_cannot_be(tmp_path: Path, suites: str, message: str) -> None:
    file = str(ISSUED.write(tmp_path / "a.pem"))
    with pytest.raises(StoreError) as refused:
        loaded({"ssl.keystore.location": file, "ssl.cipher.suites": suites})
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("standard", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_128_CBC_SHA256", "DHE-RSA-AES128-SHA256"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ],
)
def test_standard_names_of_cipher_suites(standard: str, openssl: str) -> None:
    assert openssl_name(standard) == openssl


def named(*parts: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (x509.Name.from_rfc4514_string("CN=a,OU=b,O=c,L=d,ST=e,C=FR"), "CN=a,OU=b,O=c,L=d,ST=e,C=FR"),
        (named((NameOID.DOMAIN_COMPONENT, "test"), (NameOID.USER_ID, "ann")), "UID=ann,DC=test"),
        (named((NameOID.COMMON_NAME, ' #a,b=c+"d\\e<f>;ä ')), '\\ \\#a\\,b\\=c\\+\\"d\\\\e\\<f\\>\\;ä\\ '),
        (named((EMAIL, "a@b.test"), (NameOID.COMMON_NAME, "x")), "CN=x,1.2.840.113549.1.9.1=#1608" + b"a@b.test".hex()),
        (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "vis", _ASN1Type.VisibleString)]), "CN=#1a03766973"),
        (
            x509.Name(
                [
                    x509.RelativeDistinguishedName(
                        [x509.NameAttribute(NameOID.COMMON_NAME, "a"), x509.NameAttribute(NameOID.USER_ID, "b")]
                    )
                ]
            ),
            "CN=a+UID=b",
        ),
    ],
)
def test_names_are_written_as_java_does(name: x509.Name, text: str) -> None:
    """``X500Principal.getName()`` of Java 17 writes these."""
    wanted = text if "=" in text.split(",")[0][:12] and not text.startswith("\\") else f"CN={text}"
    assert distinguished_name(name) == wanted
