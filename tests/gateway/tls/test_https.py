"""HTTPS on the HTTP port, and Muster's own commands as clients of listeners with TLS and of HTTPS."""

from __future__ import annotations

import json
import logging
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest
from click.testing import CliRunner, Result

from muster.gateway.cli.main import cli
from muster.gateway.client.security import read_security
from muster.gateway.http.server import gateway_app, start_http
from muster.gateway.security.tls import listeners
from muster.placement.view import Broker
from muster.placement.zookeeper.client import ZooKeeperClient
from tests.certificates import Authority, Issued
from tests.gateway.serving import Client, Serving, serving
from tests.zookeeper_fixture import eventually

CA = Authority()
SUBJECT = "CN=gateway,O=Test"


@pytest.fixture
def https(
    zk: ZooKeeperClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[tuple[Serving, int]]:
    monkeypatch.setattr(listeners, "LOOK_S", 0.02)
    properties = {
        "listeners": "PLAINTEXT://:1,MUTUAL://:2",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,MUTUAL:SSL",
        "ssl.keystore.location": str(CA.issue(SUBJECT).write(tmp_path / "gateway.pem")),
        "ssl.truststore.location": str(CA.write(tmp_path / "ca.pem")),
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]*),O=Test$/$1/",
        "listener.name.mutual.ssl.client.auth": "required",
        "metrics.security.protocol": "SSL",
        "listener.name.metrics.ssl.client.auth": "requested",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin",
    }
    with serving(zk, tmp_path, properties, with_actors=True) as running:
        port = running.listen("MUTUAL")
        broker = Broker(id=1, host="127.0.0.1", port=port, node_id="n1")
        running.controller.brokers = (broker,)
        running.follow(running.controller.view())
        app = gateway_app(running.gateway)
        runner, http = running.run(start_http(app, "127.0.0.1", 0, context=running.gateway.tls.http_context))
        yield running, http
        running.run(runner.cleanup())
    assert not [each for each in caplog.records if each.name == "asyncio" and each.levelno > logging.DEBUG]


def get(port: int, path: str, issued: Issued | None, tmp_path: Path) -> str:
    context = ssl.create_default_context(cadata=CA.pem)
    if issued is not None:
        context.load_cert_chain(issued.write(tmp_path / "client.pem"))
    with urllib.request.urlopen(f"https://localhost:{port}{path}", context=context, timeout=20) as response:
        return str(response.read(), "utf-8")


def test_a_certificate_names_the_caller(https: tuple[Serving, int], tmp_path: Path) -> None:
    _, port = https
    assert "muster_connections" in get(port, "/metrics", None, tmp_path)
    with pytest.raises(HTTPError) as refused:
        get(port, "/v1/groups/lag?group=g", None, tmp_path)
    assert refused.value.code == 401
    with pytest.raises(HTTPError) as refused:
        get(port, "/v1/groups/lag?group=g", CA.issue("CN=eve,O=Test"), tmp_path)
    assert refused.value.code == 403
    with pytest.raises(HTTPError) as refused:
        get(port, "/v1/groups/lag?group=g", CA.issue("CN=admin,O=Other"), tmp_path)
    assert refused.value.code == 401
    assert json.loads(get(port, "/v1/groups/waiting", CA.issue("CN=admin,O=Test"), tmp_path)) is not None


def test_a_new_certificate_is_presented(https: tuple[Serving, int], tmp_path: Path) -> None:
    _, port = https
    new = CA.issue(SUBJECT)
    new.write(tmp_path / "new").replace(tmp_path / "gateway.pem")
    eventually(
        lambda: ssl.get_server_certificate(("127.0.0.1", port)).strip() == new.certificate_pem.strip(),
        "the new certificate",
    )


def test_plain_http_is_closed_in_silence(https: tuple[Serving, int]) -> None:
    _, port = https
    with Client(port) as client:
        client.send_raw(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 10)
        eventually(client.is_closed, "the end of the connection")


def muster(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.mark.parametrize("kind", ["PEM", "PKCS12", "files"])
def test_own_commands_use_tls(https: tuple[Serving, int], tmp_path: Path, kind: str) -> None:
    running, http = https
    running.create("a-topic")
    admin = CA.issue("CN=admin,O=Test")
    lines = ["security.protocol=SSL", f"ssl.truststore.location={tmp_path / 'ca.pem'}"]
    if kind == "PEM":
        lines += [f"ssl.keystore.location={admin.write(tmp_path / 'a.pem', 'secret')}", "ssl.key.password=secret"]
    elif kind == "PKCS12":
        lines += [f"ssl.keystore.location={admin.write_pkcs12(tmp_path / 'a.p12', 'secret')}"]
        lines += ["ssl.keystore.type=PKCS12", "ssl.keystore.password=secret"]
    else:
        (tmp_path / "a.key").write_text(admin.key_pem())
        (tmp_path / "a.crt").write_text(admin.certificate_pem)
        lines += [f"ssl.key.location={tmp_path / 'a.key'}", f"ssl.certificate.location={tmp_path / 'a.crt'}"]
    file = tmp_path / "admin.properties"
    file.write_text("\n".join(lines))
    assert "secret" not in repr(read_security(file))
    there = ("--bootstrap-server", f"localhost:{running.gateway.view.brokers[0].port}", "--command-config", str(file))
    listed = muster("topics", "list", *there)
    assert listed.exit_code == 0, listed.output
    assert "a-topic" in listed.output
    over_http = muster("fault", "list", "--http", f"https://localhost:{http}", "--command-config", str(file))
    assert "fault injection is off" in over_http.output


def test_messages_need_rights_on_the_topic_alone(https: tuple[Serving, int], tmp_path: Path) -> None:
    running, _ = https
    running.create("a-topic")

    def as_user(name: str, *arguments: str, stdin: str = "") -> Result:
        keys = CA.issue(f"CN={name},O=Test").write(tmp_path / f"{name}.pem")
        file = tmp_path / f"{name}.properties"
        trust = f"ssl.truststore.location={tmp_path / 'ca.pem'}"
        file.write_text(f"security.protocol=SSL\n{trust}\nssl.keystore.location={keys}\n")
        there = ("--bootstrap-server", f"localhost:{running.gateway.view.brokers[0].port}")
        return CliRunner().invoke(cli, [*arguments, *there, "--command-config", str(file)], input=stdin)

    produce, tail = ("topics", "produce", "a-topic"), ("topics", "tail", "a-topic", "--from-beginning", "--count", "2")
    refused = as_user("ann", *produce, stdin="1\n2\n")
    assert refused.exit_code == 1
    assert "TOPIC_AUTHORIZATION_FAILED" in refused.stderr
    rights = ("--operation", "READ", "--operation", "WRITE", "--topic", "a-topic")
    added = as_user("admin", "acls", "add", "--allow-principal", "User:ann", *rights)
    assert added.exit_code == 0, added.output
    sent = as_user("ann", *produce, stdin="1\n2\n")
    assert (sent.exit_code, sent.stderr) == (0, "2 messages acknowledged\n")
    shown = as_user("ann", *tail)
    assert (shown.exit_code, shown.stdout) == (0, "1\n2\n"), shown.output


@pytest.mark.parametrize(
    "command", [("attribution-audit",), ("fault", "list"), ("groups", "history"), ("groups", "waiting")]
)
def test_commands_over_http_take_a_login(command: tuple[str, ...]) -> None:
    assert "--command-config" in muster(*command, "--help").output
