"""A certificate is replaced while clients are connected: by a new file, and by IncrementalAlterConfigs."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.security.tls import listeners
from muster.placement.zookeeper.client import ZooKeeperClient
from tests.certificates import SERVER, Authority, Issued
from tests.gateway.serving import Client, Serving, serving
from tests.gateway.tls.test_listeners import secure, works
from tests.zookeeper_fixture import eventually

CA = Authority()
SUBJECT = "CN=gateway,O=Test"
LOCATION = "listener.name.ssl.ssl.keystore.location"
BROKER, SET = 4, 0


@pytest.fixture
def tls(zk: ZooKeeperClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Serving, int]]:
    monkeypatch.setattr(listeners, "LOOK_S", 0.02)
    properties = {
        "listeners": "PLAINTEXT://:1,SSL://:2",
        "ssl.keystore.location": str(CA.issue(SUBJECT).write(tmp_path / "gateway.pem")),
    }
    with serving(zk, tmp_path, properties) as running:
        yield running, running.listen("SSL")


def presented(port: int) -> x509.Certificate:
    with secure(port, ssl.create_default_context(cadata=CA.pem)) as client:
        assert works(client)
        held: Any = client._socket
        return x509.load_der_x509_certificate(held.getpeercert(binary_form=True))


def replace(file: Path, issued: Issued) -> Issued:
    """Replace the files by a rename, like cert-manager and others, so that no reader finds half a file."""
    issued.write(file.with_suffix(".new")).replace(file)
    return issued


def alter(serving: Serving, value: Path, broker: str = "1", *, validate_only: bool = False) -> tuple[ErrorCode, str]:
    config = {"name": LOCATION, "config_operation": SET, "value": str(value)}
    resource = {"resource_type": BROKER, "resource_name": broker, "configs": [config]}
    body = {"resources": [resource], "validate_only": validate_only}
    (response,) = serving.exchange(44, 1, body).responses
    return response.error_code, response.error_message


def test_a_new_file_is_for_new_connections(
    tls: tuple[Serving, int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running, port = tls
    caplog.set_level(logging.INFO)
    with secure(port, ssl.create_default_context(cadata=CA.pem)) as before:
        assert works(before)
        new = replace(tmp_path / "gateway.pem", CA.issue(SUBJECT, days=199.95))
        eventually(lambda: presented(port) == new.certificate, "the new certificate")
        assert works(before)
    assert f"that of {SUBJECT}; it ends on {new.certificate.not_valid_after_utc.isoformat()}" in caplog.text
    _, metrics = running.http("/metrics")
    assert 'muster_tls_certificate_days_left{gateway="1",listener="SSL"} 199.9' in metrics


@pytest.mark.parametrize(
    ("issued", "message"),
    [
        (CA.issue("CN=other,O=Test"), "the certificate of CN=other,O=Test is not that of CN=gateway,O=Test"),
        (CA.issue(SUBJECT, names=SERVER[:1]), "the new certificate lacks the alternative names IPAddress:127.0.0.1"),
        (CA.issue(SUBJECT, days=-0.5), "a handshake with the new certificate fails: certificate has expired"),
    ],
)
def test_what_must_not_take_its_place(
    tls: tuple[Serving, int], tmp_path: Path, caplog: pytest.LogCaptureFixture, issued: Issued, message: str
) -> None:
    running, port = tls
    old = presented(port)
    code, text = alter(running, issued.write(tmp_path / "second.pem"))
    assert code is ErrorCode.invalid_request
    assert message in text
    replace(tmp_path / "gateway.pem", issued)
    text = f"listener SSL continues with the certificate that it has: {message}"
    eventually(lambda: text in caplog.text, text)
    assert presented(port) == old


def test_another_location_comes_into_force(tls: tuple[Serving, int], tmp_path: Path) -> None:
    running, port = tls
    old, more = presented(port), (*SERVER, x509.DNSName("gateway.test"))
    second = CA.issue(SUBJECT, names=more)
    second.write(tmp_path / "second.pem")
    assert alter(running, tmp_path / "second.pem", validate_only=True) == (ErrorCode.none, None)
    assert presented(port) == old
    assert alter(running, tmp_path / "missing.pem")[1].endswith("missing.pem cannot be read: No such file or directory")
    assert alter(running, tmp_path / "second.pem") == (ErrorCode.none, None)
    # Here, unlike in a cluster, the view comes later.
    eventually(lambda: presented(port) == second.certificate, "the second certificate")
    third = replace(tmp_path / "second.pem", CA.issue(SUBJECT, names=more))
    assert alter(running, tmp_path / "second.pem", broker="") == (ErrorCode.none, None)
    assert presented(port) == third.certificate


def test_a_password_of_a_store_is_not_altered(tls: tuple[Serving, int]) -> None:
    running, _ = tls
    config = {"name": "listener.name.ssl.ssl.key.password", "config_operation": SET, "value": "open sesame"}
    body = {"resources": [{"resource_type": BROKER, "resource_name": "1", "configs": [config]}], "validate_only": False}
    (response,) = running.exchange(44, 1, body).responses
    assert response.error_code is ErrorCode.invalid_request
    assert "open sesame" not in response.error_message


def test_clients_of_the_plain_listener_see_the_location(tls: tuple[Serving, int], tmp_path: Path) -> None:
    running, _ = tls
    CA.issue(SUBJECT).write(tmp_path / "second.pem")
    assert alter(running, tmp_path / "second.pem")[0] is ErrorCode.none
    body = {
        "resources": [{"resource_type": BROKER, "resource_name": "1", "configuration_keys": None}],
        "include_synonyms": True,
        "include_documentation": False,
    }
    with Client(running.port) as client:
        (result,) = client.exchange(32, 4, body).results
    rows = {config.name: config for config in result.configs}
    assert rows[LOCATION].value == str(tmp_path / "second.pem")
    assert rows[LOCATION].config_source == 2
    assert rows["ssl.key.password"].is_sensitive
