"""TLS to a real ZooKeeper, which asks for certificates: who gets in, who may change what, and what others read."""

from __future__ import annotations

import contextlib
import json
import logging
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner
from kazoo.exceptions import NoAuthError

from muster.gateway.cli.doctor.cluster import zookeeper as checked
from muster.gateway.cli.main import cli
from muster.placement.zookeeper.access import Access
from muster.placement.zookeeper.client import ZooKeeperClient, ZooKeeperUnreachable, connect
from muster.placement.zookeeper.securing import is_secure
from tests.certificates import Authority
from tests.zookeeper_fixture import eventually
from tests.zookeeper_tls import SECRET, TlsZooKeeper, tls_zookeeper

_CONNECT_S = 30
_JOIN_S = 0.02
"""How long data are held back until more comes."""
_numbers = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsZooKeeper]:
    with tls_zookeeper(tmp_path_factory.mktemp("tls") / "zookeeper") as running:
        yield running


@pytest.fixture
def hosts(server: TlsZooKeeper) -> str:
    """With an empty chroot of the test's own, which anyone may change."""
    root = connect(server.hosts, replace(server.muster, set_acl=False), timeout_s=_CONNECT_S)
    chroot = f"/test-{next(_numbers)}"
    root.create(chroot)
    root.shut()
    return server.hosts + chroot


@pytest.fixture
def muster(server: TlsZooKeeper, hosts: str) -> Iterator[ZooKeeperClient]:
    client = connect(hosts, server.muster, timeout_s=_CONNECT_S)
    yield client
    client.shut()


@contextlib.contextmanager
def known_as(hosts: str, access: Access) -> Iterator[ZooKeeperClient]:
    client = connect(hosts, access, timeout_s=_CONNECT_S)
    yield client
    client.shut()


def test_a_node_is_of_both_identities_of_its_creator(server: TlsZooKeeper, hosts: str, muster: ZooKeeperClient) -> None:
    muster.call(muster.ensure_path_async, "/config/users/ann")
    muster.call(muster.ensure_path_async, "/brokers/topics/t")
    schemes = [acl.id.scheme for acl in muster.get_acls("/config/users/ann")[0]]
    assert sorted(schemes) == ["digest", "x509"]
    stranger = replace(server.muster, certificate_file=server.issue("stranger"), credentials_file=None, set_acl=False)
    with known_as(hosts, stranger) as client:
        assert client.get("/brokers/topics/t")[0] == b""
        for change in (client.set, client.create):
            with pytest.raises(NoAuthError):
                change("/brokers/topics/t" if change == client.set else "/brokers/topics/t/below", b"x")
        with pytest.raises(NoAuthError):
            client.get("/config/users/ann")
    for one in ({"credentials_file": None}, {"certificate_file": stranger.certificate_file}):
        with known_as(hosts, replace(server.muster, **one)) as client:
            client.set("/config/users/ann", b"x")


def _refused(server: TlsZooKeeper) -> dict[str, tuple[Access, str]]:
    access, other = server.muster, Authority("Other")
    text, locked = server.folder / "text.pem", server.folder / "locked.pem"
    text.write_text("no certificate")
    server.authority.issue("CN=locked").write(locked, SECRET)
    return {
        "another authority": (
            replace(access, authorities_file=str(other.write(server.folder / "other.pem"))),
            "its certificate is not trusted: self-signed certificate in certificate chain",
        ),
        "authorities of the system": (replace(access, authorities_file=None), "its certificate is not trusted"),
        "no certificate": (replace(access, certificate_file=None), "it refuses TLS with this client ("),
        "a certificate of another authority": (
            replace(access, certificate_file=server.issue("foreign", other)),
            "it refuses TLS with this client (certificate unknown)",
        ),
        "a file that is missing": (replace(access, certificate_file="/missing.pem"), "/missing.pem, for TLS to ZooK"),
        "a file without certificate": (replace(access, authorities_file=str(text)), f"{text}, for TLS to ZooKeeper"),
        "a key with a password": (replace(access, certificate_file=str(locked)), "its key, unencrypted"),
    }


@pytest.mark.parametrize(
    "case",
    [
        "another authority",
        "authorities of the system",
        "no certificate",
        "a certificate of another authority",
        "a file that is missing",
        "a file without certificate",
        "a key with a password",
    ],
)
def test_who_is_refused_reads_why_at_once(server: TlsZooKeeper, case: str) -> None:
    """Not when the time for a connection is over, which is longer than this test may take."""
    access, said = _refused(server)[case]
    with pytest.raises(ZooKeeperUnreachable) as raised:
        connect(server.hosts, access, timeout_s=1000)
    assert said in str(raised.value)
    assert SECRET not in str(raised.value)


def test_a_certificate_is_for_a_host(server: TlsZooKeeper) -> None:
    elsewhere = server.hosts.replace("127.0.0.1", "127.0.0.2")
    relay = socket.create_server(("127.0.0.2", server.port))  # so that someone accepts there
    thread = threading.Thread(target=_relay_once, args=(relay, server.port), daemon=True)
    thread.start()
    with pytest.raises(ZooKeeperUnreachable, match="not trusted: IP address mismatch"):
        connect(elsewhere, server.muster, timeout_s=1000)
    relay.close()


def test_without_tls_there_is_no_response(server: TlsZooKeeper) -> None:
    with pytest.raises(ZooKeeperUnreachable, match=r"no ZooKeeper answers at .* within 0.5 s"):
        connect(server.hosts, timeout_s=0.5)


def test_the_commands_use_tls(server: TlsZooKeeper, hosts: str, muster: ZooKeeperClient, tmp_path: Path) -> None:
    muster.call(muster.ensure_path_async, "/brokers/topics/t")
    file = tmp_path / "muster.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in server.properties.items()))
    own = ["--config", str(file), "--zookeeper", hosts]
    for command, secured in (("unsecure", False), ("secure", True)):
        done = CliRunner().invoke(cli, ["zookeeper", command, *own])
        assert (done.exit_code, done.output.partition(" ")[0]) == (0, "4")
        assert is_secure(muster) == secured
    doctor = ["doctor", *own, "--storage", str(tmp_path / "storage"), "--port", "0", "--json"]
    found = {each["check"]: each for each in json.loads(CliRunner().invoke(cli, doctor).stdout)}
    assert {found[check]["level"] for check in ("zookeeper", "zookeeper latency", "clock of zookeeper")} == {"ok"}
    assert "version 3." in found["zookeeper"]["found"]
    wrong = str(Authority("Other").write(tmp_path / "other.pem"))
    said = "its certificate is not trusted: self-signed"
    (finding,) = checked(hosts, replace(server.muster, authorities_file=wrong))
    assert (finding.level, said in finding.found) == ("failed", True)
    done = CliRunner().invoke(cli, ["zookeeper", "secure", *own, "--set", f"zookeeper.ssl.truststore.location={wrong}"])
    assert (done.exit_code, said in done.output) == (1, True)


def test_nothing_that_tls_has_decrypted_waits(server: TlsZooKeeper, hosts: str, muster: ZooKeeperClient) -> None:
    """The responses of many requests, and events, in records with several of them, and with parts of them."""
    with _joining_relay(server) as port:
        through = hosts.replace(str(server.port), str(port))
        client = connect(through, server.muster, timeout_s=_CONNECT_S)
        paths = [f"/many/{number:05}" for number in range(2000)]
        seen: set[str] = set()
        client.call(client.ensure_path_async, "/many")
        client.watch_tree("/many", lambda event: seen.add(event.path)).get(timeout=20)
        assert not any(muster.commit_each([("create", path, b"x" * 500)] for path in paths))
        eventually(lambda: seen.issuperset(paths), "all events")
        results = [client.get_async(path) for path in paths]
        assert {result.get(timeout=20)[0] for result in results} == {b"x" * 500}
        assert len(client.read_many(paths)) == len(paths)
        client.shut()


def test_certificates_are_replaced_while_muster_runs(
    server: TlsZooKeeper, hosts: str, muster: ZooKeeperClient, caplog: pytest.LogCaptureFixture
) -> None:
    """The server's new one is not trusted yet, which one line says; then the file with the authorities is replaced."""
    muster.create("/node", b"kept")
    server.kill()
    new = Authority("New")
    new.issue("CN=server").write(server.folder / "server.pem")
    with caplog.at_level(logging.WARNING):
        server.start(client_auth="none")
        line = f"no connection to ZooKeeper at {server.hosts}: its certificate is not trusted: self-signed"
        said = lambda: [each.getMessage() for each in caplog.records if each.getMessage().startswith(line)]  # noqa: E731
        eventually(said, "the line")
        new.write(server.folder / "ca.pem")
        assert muster.call(muster.get_async, "/node", timeout_s=_CONNECT_S)[0] == b"kept"
    assert len(said()) == 1
    with known_as(hosts, replace(server.muster, certificate_file=None)) as client:
        client.set("/node", b"by digest alone")


def _relay_once(listening: socket.socket, port: int) -> None:
    accepted, _ = listening.accept()
    there = socket.create_connection(("127.0.0.1", port))
    for source, target in ((accepted, there), (there, accepted)):
        threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def _joining_relay(server: TlsZooKeeper) -> Iterator[int]:
    """Yield the port of a TLS server before ZooKeeper. It sends what comes within some milliseconds in few records."""
    inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inside.load_cert_chain(server.folder / "server.pem")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    accepted, _ = listening.accept()
                    threading.Thread(target=relay, args=(accepted,), daemon=True).start()

        def relay(accepted: socket.socket) -> None:
            with contextlib.suppress(OSError), accepted:
                client = inside.wrap_socket(accepted, server_side=True)
                plain = socket.create_connection(("127.0.0.1", server.port))
                with client, server.muster.tls_context().wrap_socket(plain, server_hostname="127.0.0.1") as there:
                    _copy_joined(client, there)

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]


def _copy_joined(client: ssl.SSLSocket, there: ssl.SSLSocket) -> None:
    """Both directions in one thread: no two may use a connection of OpenSSL at a time."""
    held = b""
    while True:
        ready: list[ssl.SSLSocket] = [one for one in (client, there) if one.pending()]
        ready = ready or select.select([client, there], [], [], _JOIN_S if held else None)[0]
        if held and (there not in ready or len(held) >= 1 << 16):
            _send(client, held)
            held = b""
        for one in ready:
            one.settimeout(_JOIN_S)
            with contextlib.suppress(TimeoutError):  # what came was for TLS alone
                if not (data := one.recv(1 << 16)):
                    return
                if one is there:
                    held += data
                else:
                    _send(there, data)


def _send(target: ssl.SSLSocket, data: bytes) -> None:
    target.settimeout(_CONNECT_S)
    target.sendall(data)
