"""Listeners with TLS: real clients, raw sockets, and what the log says of a handshake that fails."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer as PythonConsumer

from muster.gateway.apis.data.fetching import segment_files
from muster.gateway.cli.main import cli
from muster.gateway.listener.connection import Connection
from muster.gateway.listener.proxy_protocol import Source, write_header
from muster.gateway.security.credentials import write
from muster.gateway.security.scram import SCRAM_MECHANISMS, ScramCredential
from muster.gateway.security.tls import listeners, transport
from muster.placement.view import Broker, BrokerAddress
from tests.certificates import Authority, Issued
from tests.gateway.serving import Client, Serving
from tests.zookeeper_fixture import eventually

FETCH, METADATA, API_VERSIONS = 1, 3, 18
NO_TOPICS = {"topics": [], "allow_auto_topic_creation": False}
CA, OTHER_CA = Authority(), Authority("Another CA")
GATEWAY = CA.issue("CN=gateway,O=Test")
ONLY_ONE = "203.0.113.10"
"""The address of a client that may have one connection."""
PASSWORD = "ann's password"
Fresh = Callable[[str], str]
Reasons = Callable[[], list[str]]
NAMES = ("SSL", "MUTUAL", "SASL", "NEW", "BALANCED")
RULES = r"RULE:^CN=([^,]+),OU=svc.*$/svc-$1/L, RULE:^CN=(.*?),O=Test$/$1/"


def PROPERTIES(storage: Path) -> dict[str, str]:
    write(storage / "users", {"ann": {each: ScramCredential.of_password(each, PASSWORD) for each in SCRAM_MECHANISMS}})
    protocols = "PLAINTEXT:PLAINTEXT,SSL:SSL,MUTUAL:SSL,SASL:SASL_SSL,NEW:SSL,BALANCED:SSL"
    return {
        "listeners": "PLAINTEXT://:1," + ",".join(f"{name}://:{port}" for port, name in enumerate(NAMES, 10)),
        "listener.security.protocol.map": protocols,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.credentials.file": str(storage / "users"),
        "ssl.keystore.location": str(GATEWAY.write(storage / "gateway.pem", "key's password")),
        "ssl.key.password": "key's password",
        "ssl.truststore.location": str(CA.write(storage / "ca.pem")),
        "ssl.principal.mapping.rules": RULES,
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.new.ssl.enabled.protocols": "TLSv1.3",
        "listener.name.balanced.proxy.protocol.enable": "true",
        "max.connections.per.ip.overrides": f"{ONLY_ONE}:1",
    }


@pytest.fixture(scope="module")
def ports(full: Serving) -> dict[str, int]:
    found = {name: full.listen(name) for name in NAMES}
    further = tuple(BrokerAddress(name, "127.0.0.1", port) for name, port in found.items())
    broker = Broker(id=full.gateway.id, host="127.0.0.1", port=full.port, node_id="n1", further=further)
    full.controller.brokers = (broker,)
    full.follow(full.controller.view())
    return found


@pytest.fixture
def reasons(full: Serving, caplog: pytest.LogCaptureFixture) -> Iterator[Reasons]:
    """Yield a function that returns the log about connections; nothing may reach asyncio's log meanwhile."""
    full.flush_complaints()
    caplog.set_level(logging.INFO, "muster.gateway.listener.connection")
    yield lambda: [each.getMessage() for each in caplog.records if each.name == "muster.gateway.listener.connection"]
    assert not [each for each in caplog.records if each.name == "asyncio"]


def client_context(issued: Issued | None = None, folder: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=CA.pem)
    if issued is not None:
        assert folder is not None
        context.load_cert_chain(issued.write(folder / "client.pem"))
    return context


def secure(port: int, context: ssl.SSLContext, first: bytes = b"") -> Client:
    client = Client(port)
    client.send_raw(first)
    client._socket = context.wrap_socket(client._socket, server_hostname="localhost")
    return client


def works(client: Client) -> bool:
    return bool(client.exchange(METADATA, 4, NO_TOPICS).cluster_id)


def principal_of(full: Serving, client: Client) -> str:
    return next(each.principal for each in full.gateway.connections.values() if each.port == client.port)


def librdkafka(full: Serving, port: int, tmp_path: Path, **more: str) -> dict[str, str | int | float | bool]:
    named = {key.replace("_", "."): value for key, value in more.items()}
    common = {"bootstrap.servers": f"localhost:{port}", "security.protocol": "SSL"}
    return {**common, "ssl.ca.location": str(CA.write(tmp_path / "ca.pem")), **named}


def test_librdkafka_produces_and_consumes(full: Serving, ports: dict[str, int], tmp_path: Path, fresh: Fresh) -> None:
    """Also a record that is encrypted in several pieces, and several TLS records that come at once."""
    topic = full.create(fresh("topic")).name
    settings = librdkafka(full, ports["SSL"], tmp_path)
    producer = Producer({**settings, "message.max.bytes": "4000000"})
    values = [bytes([number]) * 900_000 for number in range(4)]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = Consumer({**settings, "group.id": fresh("group"), "auto.offset.reset": "earliest"})
    with closing(consumer):
        consumer.subscribe([topic])
        found = consumer.consume(len(values), timeout=30)
        assert [message.value() for message in found] == values
        assert {each.principal for each in full.gateway.connections.values()} == {"User:ANONYMOUS"}


def test_own_commands_reach_a_coordinator(full: Serving, ports: dict[str, int], tmp_path: Path, fresh: Fresh) -> None:
    """Over a socket of their own, with TLS and a login."""
    file, group = tmp_path / "ann.properties", fresh("group")
    login = f"sasl.mechanism=SCRAM-SHA-256\nsasl.username=ann\nsasl.password={PASSWORD}\n"
    file.write_text(f"security.protocol=SASL_SSL\nssl.ca.location={CA.write(tmp_path / 'ca.pem')}\n{login}")
    there = ("--bootstrap-server", f"localhost:{ports['SASL']}", "--command-config", str(file))
    described = CliRunner().invoke(cli, ("groups", "describe", group, *there))
    assert group in described.output
    assert "does not respond" not in described.output


def test_kafka_python_consumes(full: Serving, ports: dict[str, int], tmp_path: Path, fresh: Fresh) -> None:
    topic = full.create(fresh("topic")).name
    producer = Producer(librdkafka(full, ports["SSL"], tmp_path))
    producer.produce(topic, b"a value")
    assert producer.flush(30) == 0
    consumer = PythonConsumer(
        topic,
        bootstrap_servers=f"localhost:{ports['SSL']}",
        security_protocol="SSL",
        ssl_cafile=str(CA.write(tmp_path / "ca.pem")),
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    with closing(consumer):
        assert next(consumer).value == b"a value"


def test_sasl_ssl_names_the_user(full: Serving, ports: dict[str, int], tmp_path: Path) -> None:
    login = {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "ann"}
    settings = librdkafka(full, ports["SASL"], tmp_path, **login, sasl_password=PASSWORD)
    admin = AdminClient(settings)
    assert admin.list_topics(timeout=20).brokers
    eventually(lambda: "User:ann" in {each.principal for each in full.gateway.connections.values()}, "the login")


@pytest.mark.parametrize(
    ("subject", "principal"),
    [
        ("CN=Pay,OU=svc,O=x", "User:svc-pay"),
        ("CN=ann,O=Test", "User:ann"),
    ],
)
def test_a_client_certificate_names_the_client(
    full: Serving, ports: dict[str, int], tmp_path: Path, subject: str, principal: str
) -> None:
    with secure(ports["MUTUAL"], client_context(CA.issue(subject), tmp_path)) as client:
        assert works(client)
        assert principal_of(full, client) == principal


def test_librdkafka_with_a_client_certificate(full: Serving, ports: dict[str, int], tmp_path: Path) -> None:
    CA.issue("CN=bob,O=Test").write_pkcs12(tmp_path / "bob.p12", "secret")
    store = {"ssl_keystore_location": str(tmp_path / "bob.p12"), "ssl_keystore_password": "secret"}
    admin = AdminClient(librdkafka(full, ports["MUTUAL"], tmp_path, **store))
    assert admin.list_topics(timeout=20).brokers
    eventually(lambda: "User:bob" in {each.principal for each in full.gateway.connections.values()}, "the client")


def test_no_rule_matches_the_certificate(
    full: Serving, ports: dict[str, int], tmp_path: Path, reasons: Reasons
) -> None:
    with secure(ports["MUTUAL"], client_context(CA.issue("CN=Pay,O=half"), tmp_path)) as client:
        assert client.is_closed()
    text = "no rule of ssl.principal.mapping.rules matches"
    eventually(lambda: any(text in each for each in reasons()), text)


def test_a_header_of_a_balancer_comes_before_the_handshake(full: Serving, ports: dict[str, int]) -> None:
    header = write_header(Source("203.0.113.9", 4711), Source("127.0.0.1", ports["BALANCED"]))
    with secure(ports["BALANCED"], client_context(), header) as client:
        assert works(client)
        hosts = {(each.host, each.port) for each in full.gateway.connections.values()}
        assert ("203.0.113.9", 4711) in hosts


def test_a_connection_too_many_behind_a_balancer_gets_no_handshake(full: Serving, ports: dict[str, int]) -> None:
    header = write_header(Source(ONLY_ONE, 4711), Source("127.0.0.1", ports["BALANCED"]))
    incoming, hello = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        client_context().wrap_bio(incoming, hello, server_hostname="localhost").do_handshake()
    with secure(ports["BALANCED"], client_context(), header) as client, Client(ports["BALANCED"]) as second:
        assert works(client)
        second.send_raw(header + hello.read())
        assert second.is_closed()


def test_any_split_of_the_bytes_is_the_same(full: Serving, ports: dict[str, int]) -> None:
    """Byte by byte: the handshake, and a request in the same packet as its end."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    side = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", ports["SSL"]), timeout=20) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                side.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    raw.sendall(bytes([byte]))
                incoming.write(raw.recv(65536))
        side.write(bytes.fromhex("0000000a 0012 0000 00000001 ffff".replace(" ", "")))
        raw.sendall(outgoing.read())
        while True:
            try:
                head = side.read(8)
                break
            except ssl.SSLWantReadError:
                incoming.write(raw.recv(65536))
        assert head[4:8] == b"\0\0\0\1"


@pytest.mark.parametrize("cut", [3, 6, 7, 26])
def test_a_record_that_comes_in_two_pieces(full: Serving, ports: dict[str, int], cut: int) -> None:
    """The client's last flight are two records; the second may begin in the packet of the first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    side = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", ports["SSL"]), timeout=20) as raw:
        with pytest.raises(ssl.SSLWantReadError):
            side.do_handshake()
        raw.sendall(hello := outgoing.read())
        while side.version() is None or not outgoing.pending:
            incoming.write(raw.recv(65536))
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
        flight = outgoing.read()
        raw.sendall(flight[:cut])
        tls, came = _tls_of(full, raw.getsockname()[1]), len(hello) + cut
        eventually(lambda: tls.received_bytes == came, "a part of the flight")
        raw.sendall(flight[cut:])
        eventually(lambda: tls.is_established, "the end of the handshake")


def fails(port: int, context: ssl.SSLContext) -> None:
    """Require a failure. A client of TLS 1.3 hears of it only when it reads."""
    try:
        with secure(port, context) as client:
            assert client.is_closed()
    except (ssl.SSLError, ConnectionError):
        pass


def test_what_the_log_says_of_failed_handshakes(
    full: Serving, ports: dict[str, int], tmp_path: Path, reasons: Reasons, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = client_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    fails(ports["NEW"], old)
    rsa = client_context()
    rsa.maximum_version = ssl.TLSVersion.TLSv1_2
    rsa.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")
    fails(ports["SSL"], rsa)
    fails(ports["MUTUAL"], client_context())
    fails(ports["MUTUAL"], client_context(OTHER_CA.issue("CN=eve,O=Test"), tmp_path))
    fails(ports["MUTUAL"], client_context(CA.issue("CN=ann,O=Test", days=-0.5), tmp_path))
    fails(ports["SSL"], ssl.create_default_context())
    with Client(ports["SSL"]) as plain:
        plain.request(API_VERSIONS, 0, {})
        assert plain.is_closed()
    full.flush_complaints()  # the next one is of the same kind
    with Client(ports["SSL"]) as http:
        http.send_raw(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert http.is_closed()
    with Client(ports["SSL"]) as cut:
        cut.send_raw(bytes.fromhex("16030100f0"))
        tls = _tls_of(full, cut.port)
        eventually(lambda: tls.received_bytes, "the start of a record")
    monkeypatch.setattr(transport, "HANDSHAKE_S", 0.05)
    with Client(ports["SSL"]) as silent:
        assert silent.is_closed()
    expected = (
        "the client offers no version of ssl.enabled.protocols",
        "no cipher suite in common with the client",
        "the client has no certificate, which ssl.client.auth=required demands",
        "the client's certificate is refused: self-signed certificate in certificate chain",
        "the client's certificate is refused: certificate has expired",
        "the client refuses the gateway's certificate",
        "this looks like a Kafka client without TLS: set security.protocol=SSL or SASL_SSL",
        "this looks like HTTP",
        "the client closed it in the middle of the TLS handshake",
        "the TLS handshake took longer than",
    )
    for text in expected:
        eventually(lambda text=text: any(text in reason for reason in reasons()), text)
    _, metrics = full.http("/metrics")
    for cause in ("plaintext", "tls_version", "tls_cipher", "tls_timeout", "client_certificate", "certificate_refused"):
        assert f'muster_connections_closed_total{{gateway="1",reason="{cause}"}}' in metrics
    assert not full.run(_open_handshakes(full))


def test_a_connection_is_closed_whatever_becomes_of_its_handshake(full: Serving, ports: dict[str, int]) -> None:
    """A thread has the handshake, which then fails."""
    release = threading.Event()
    busy = [full.gateway.tls.threads.submit(release.wait, 20) for _ in range(listeners.THREADS)]
    old, hello = client_context(), ssl.MemoryBIO()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with suppress(ssl.SSLWantReadError):
        old.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost").do_handshake()
    with Client(ports["NEW"]) as client:
        client.send_raw(hello.read())
        tls = _tls_of(full, client.port)
        eventually(lambda: tls._is_busy, "the handshake")
        full.run(_close(tls))
        assert not tls._socket.is_closing()
        release.set()
        assert all(each.result(20) for each in busy)
        eventually(lambda: not tls._is_busy, "the end of the handshake")
        assert full.run(_is_closing(tls))


async def _close(tls: transport.TlsTransport) -> None:
    """Close the connection like a gateway that stops."""
    assert isinstance(tls._client, Connection)
    tls._client.close()


async def _is_closing(tls: transport.TlsTransport) -> bool:
    return tls._socket.is_closing()


def _connections(full: Serving) -> list[Connection]:
    return [each for each in full.gateway.connections.values() if isinstance(each, Connection)]


def _tls_of(full: Serving, port: int) -> transport.TlsTransport:
    """Return the transport of the client with that port, once the gateway has accepted its connection."""

    def found() -> transport.TlsTransport | None:
        return next((_transport_of(each) for each in _connections(full) if each.port == port), None)

    tls: transport.TlsTransport = eventually(found, "the connection")
    return tls


async def _open_handshakes(full: Serving) -> list[Connection]:
    found = ((each, _transport_of(each)) for each in _connections(full))
    return [each for each, tls in found if tls is not None and not tls.is_established]


def _transport_of(connection: Connection) -> transport.TlsTransport | None:
    return connection._transport if isinstance(connection._transport, transport.TlsTransport) else None


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_response_is_encrypted_as_the_client_takes_it(
    full: Serving, ports: dict[str, int], tmp_path: Path, fresh: Fresh, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    """Also one that is not in files, as those of other APIs."""
    if in_memory:
        monkeypatch.setattr(segment_files, "SMALL_BYTES", 50_000_000)
        monkeypatch.setattr(segment_files, "MAX_NOW_BYTES", 50_000_000)
    topic = full.create(fresh("topic")).name
    producer = Producer(librdkafka(full, ports["SSL"], tmp_path))
    for _ in range(16):
        producer.produce(topic, bytes(900_000))
    assert producer.flush(30) == 0
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 50_000_000}
    body = {"replica_id": -1, "max_wait": 100, "min_bytes": 1, "max_bytes": 50_000_000, "isolation_level": 0}
    with secure(ports["SSL"], client_context()) as client:
        client.request(FETCH, 4, {**body, "topics": [{"topic": topic, "partitions": [part]}]})
        tls = _tls_of(full, client.port)
        eventually(lambda: tls._is_paused and (tls._pending_bytes > 0 or not in_memory), "more than the client takes")
        encrypted_bytes = full.run(_encrypted(tls))
        assert encrypted_bytes <= transport._HIGH_WATER_BYTES + 2 * transport._PIECE_BYTES
        assert tls._pending_bytes > 1_000_000 if in_memory else tls.get_write_buffer_size() < 200_000
        (response,) = client.response(FETCH, 4).responses
        assert len(response.partitions[0].records) > 14_000_000
        assert works(client)


async def _encrypted(tls: transport.TlsTransport) -> int:
    return tls._socket.get_write_buffer_size()


def test_many_requests_at_once(full: Serving, ports: dict[str, int]) -> None:
    with secure(ports["SSL"], client_context()) as client:
        for _ in range(2000):
            client.request(API_VERSIONS, 3, {"client_software_name": "a", "client_software_version": "1"})
        for _ in range(2000):
            assert client.response(API_VERSIONS, 3).error_code == 0
