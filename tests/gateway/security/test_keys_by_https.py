"""The keys of an identity provider over https: only from one whose certificate is trusted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from cryptography import x509

from muster.gateway.security.oauth.jwks import Jwks, JwksError
from tests.certificates import Authority, Issued
from tests.gateway.security.identity_provider import keys_by_https
from tests.gateway.security.test_oauth import KEYS, ids

AUTHORITY = Authority()
GOOD = AUTHORITY.issue("CN=idp")


def read(certificate: Issued, authorities: Path | None, folder: Path) -> list[str]:
    """Return the ids of the keys of a provider with that certificate. Raises JwksError."""

    async def keys(url: str) -> list[str]:
        jwks = Jwks(url, 3600, authorities=None if authorities is None else str(authorities))
        try:
            return ids(await jwks.keys(None))
        finally:
            jwks.close()

    with keys_by_https(KEYS, certificate, folder) as url:
        return asyncio.run(keys(url))


def test_keys_of_a_trusted_provider(tmp_path: Path) -> None:
    assert read(GOOD, AUTHORITY.write(tmp_path / "ca.pem"), tmp_path) == ["rsa", "ec", "ed"]


@pytest.mark.parametrize(
    ("certificate", "why"),
    [
        (Authority("Another").issue("CN=idp"), "certificate verify failed"),
        (AUTHORITY.issue("CN=idp", names=(x509.DNSName("elsewhere"),)), "Hostname mismatch"),
        (AUTHORITY.issue("CN=idp", days=-0.5), "certificate has expired"),
    ],
)
def test_no_keys_of_another_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, certificate: Issued, why: str
) -> None:
    with pytest.raises(JwksError):
        read(certificate, AUTHORITY.write(tmp_path / "ca.pem"), tmp_path)
    assert why in caplog.text


def test_the_system_does_not_trust_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(JwksError):
        read(GOOD, None, tmp_path)
    assert "certificate verify failed" in caplog.text


def test_authorities_that_are_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(JwksError):
        read(GOOD, tmp_path / "ca.pem", tmp_path)
    assert "cannot be read" in caplog.text
