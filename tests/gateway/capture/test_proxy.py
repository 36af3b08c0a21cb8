"""The proxy in front of a gateway: responses to clients, recordings, and bytes of other protocols."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.kafka.framing import framed
from muster.gateway.capture.advertised import DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA, PRODUCE
from muster.gateway.capture.proxy import CaptureProxy
from muster.gateway.capture.recorder import Limits, Recorder
from muster.gateway.security.credentials import write
from muster.gateway.security.scram import ScramCredential
from tests.gateway.serving import BROKERS, Client, Serving
from tests.muster_process import eventually

PASSWORD = "a password that no file may have"
API_VERSIONS, HANDSHAKE, AUTHENTICATE = 18, 17, 36
NO_TOPICS: dict[str, Any] = {
    "topics": [],
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}
SOFTWARE = {"client_software_name": "my-client", "client_software_version": "1"}


def PROPERTIES(storage: Path) -> dict[str, str]:
    users = storage / "users.properties"
    write(users, {"ann": {"SCRAM-SHA-256": ScramCredential.of_password("SCRAM-SHA-256", PASSWORD)}})
    return {"sasl.enabled.mechanisms": "PLAIN", "sasl.credentials.file": str(users)}


class Capture:
    """A proxy on the gateway's event loop."""

    def __init__(self, serving: Serving, folder: Path, upstream: int) -> None:
        self.folder = folder
        self.recorder = Recorder(folder, Limits(max_frames=1000, max_frame_bytes=65_536))
        self.proxy = CaptureProxy("127.0.0.1", 0, self.recorder)
        self._serving = serving
        _, self.port = serving.run(self.proxy.listen(("127.0.0.1", upstream)))

    def connect(self, client_id: str | None = "a client") -> Client:
        return Client(self.port, client_id)

    def frames(self) -> dict[str, bytes]:
        """Return the recording, once all is written; ends the capture."""
        self.stop()
        return {path.stem: bytes.fromhex(path.read_text()) for path in sorted(self.folder.glob("*.hex"))}

    def stop(self) -> None:
        self._serving.run(self.proxy.stop())
        self.recorder.stop()


@pytest.fixture
def capture(served: Serving, tmp_path: Path) -> Iterator[Capture]:
    (tmp_path / "frames").mkdir()
    running = Capture(served, tmp_path / "frames", served.port)
    yield running
    running.stop()


def test_frames_are_those_that_were_sent_and_answered(served: Serving, capture: Capture) -> None:
    with capture.connect("my id") as client, served.connect("my id") as direct:
        frames = [client.exchange(API_VERSIONS, 2, {}), direct.exchange(API_VERSIONS, 2, {})]
        assert frames[0] == frames[1]
        client.exchange(API_VERSIONS, 3, SOFTWARE)
        sent = codec.encode_request(METADATA, 4, 3, "my id", NO_TOPICS)
        client.send(sent)
        client.receive()
        direct.send(sent)
        answered = direct.receive()
    frames_by_name = capture.frames()
    assert list(frames_by_name) == [
        "my-client-ApiVersions-v3-002-request",
        "my-client-ApiVersions-v3-002-response",
        "my-client-Metadata-v4-003-request",
        "my-client-Metadata-v4-003-response",
        "my_id-ApiVersions-v2-001-request",
        "my_id-ApiVersions-v2-001-response",
    ]
    assert frames_by_name["my-client-Metadata-v4-003-request"] == sent
    assert frames_by_name["my-client-Metadata-v4-003-response"] == answered


@pytest.mark.parametrize("version", codec.versions_of(METADATA))
def test_every_broker_has_a_port_of_the_proxy(served: Serving, capture: Capture, version: int) -> None:
    with capture.connect() as client:
        brokers = client.exchange(METADATA, version, NO_TOPICS).brokers
        assert [broker.host for broker in brokers] == ["127.0.0.1"] * len(BROKERS)
        ports = [int(broker.port) for broker in brokers]
        assert len({*ports, capture.port}) == len(BROKERS) + 1
        again = client.exchange(METADATA, version, NO_TOPICS).brokers
        assert [int(broker.port) for broker in again] == ports


def test_a_broker_that_clients_bootstrap_from_keeps_its_port(served: Serving, capture: Capture) -> None:
    served.reachable()
    with capture.connect() as client:
        (broker,) = client.exchange(DESCRIBE_CLUSTER, 0, {"include_cluster_authorized_operations": False}).brokers
        assert (broker.host, broker.port) == ("127.0.0.1", capture.port)
        found = client.exchange(FIND_COORDINATOR, 3, {"key": "g", "key_type": 0})
        assert found.error_code is not ErrorCode.none or found.port == capture.port


def test_an_unknown_version_of_api_versions_is_recorded_as_it_was_answered(served: Serving, capture: Capture) -> None:
    with capture.connect() as client:
        client.send(
            codec.encode_request(API_VERSIONS, 4, 9, "c", SOFTWARE).replace(b"\x00\x12\x00\x04", b"\0\x12\0\x63")
        )
        correlation_id, response = codec.decode_response(API_VERSIONS, 0, client.receive())
        assert (correlation_id, response.error_code) == (9, ErrorCode.unsupported_version)
    assert [name.partition("-")[2] for name in capture.frames()] == [
        "ApiVersions-v0-001-response",
        "ApiVersions-v99-001-request",
    ]


def test_a_request_without_a_response_does_not_shift_the_others(served: Serving, capture: Capture) -> None:
    with capture.connect() as client:
        produce: dict[str, Any] = {"transactional_id": None, "acks": 0, "timeout": 1000, "topic_data": []}
        client.request(PRODUCE, 9, produce)
        client.unanswered()
        client.request(METADATA, 4, NO_TOPICS)
        client.request(API_VERSIONS, 0, {})
        assert client.response(METADATA, 4).brokers[0].host == "127.0.0.1"
        client.response(API_VERSIONS, 0)
    assert [name.removeprefix("a_client-") for name in capture.frames()] == [
        "ApiVersions-v0-003-request",
        "ApiVersions-v0-003-response",
        "Metadata-v4-002-request",
        "Metadata-v4-002-response",
        "Produce-v9-001-request",
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_no_file_has_a_password(full: Serving, tmp_path: Path, version: int) -> None:
    """After SaslHandshake v0, tokens are frames without a header."""
    capture = Capture(full, tmp_path, full.port)
    token = b"\0ann\0" + PASSWORD.encode()
    with capture.connect() as client:
        client.exchange(HANDSHAKE, version, {"mechanism": "PLAIN"})
        if version == 0:
            client.send(token)
            assert client.receive() == b""
        else:
            assert client.exchange(AUTHENTICATE, 2, {"auth_bytes": token}).error_code is ErrorCode.none
        assert client.exchange(METADATA, 4, NO_TOPICS).brokers[0].host == "127.0.0.1"
    frames = capture.frames()
    assert not [name for name, frame in frames.items() if PASSWORD.encode() in frame]
    apis = {name.split("-")[1] for name in frames}
    assert apis == ({"SaslHandshake"} if version == 0 else {"SaslHandshake", "Metadata"})


def test_a_token_that_reads_as_a_request_is_not_written(served: Serving, tmp_path: Path) -> None:
    with _echo() as port:
        capture = Capture(served, tmp_path, port)
        token = codec.encode_request(API_VERSIONS, 0, 5, PASSWORD, {})
        with capture.connect() as client:
            for frame in (codec.encode_request(HANDSHAKE, 0, 4, "c", {"mechanism": "X"}), token):
                client.send(frame)
                assert client.receive() == frame
        assert {name.split("-")[1] for name in capture.frames()} == {"SaslHandshake"}


@contextlib.contextmanager
def _echo(instead: bytes = b"") -> Iterator[int]:
    """Serve an echo of the input, or something else instead; yields the port."""

    class Echo(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while data := self.request.recv(65_536):
                self.request.sendall(instead or data)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()


NOT_KAFKA = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"r" * 500,
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a negative size": b"\xff" * 300,
    "a frame, then none": framed(codec.encode_request(API_VERSIONS, 0, 1, "c", {})) + b"\xff" * 300,
    "half a frame": b"\0\0\1\0" + b"half",
    "an empty frame": framed(b""),
    "a short frame": framed(b"\0\x12\0"),
    "an API that is unknown": framed(b"\x7f\xff\0\0" + b"\0" * 20),
    "no body": framed(b"\0\x03\0\x04\0\0\0\1\0\1c"),
    "a hostile length": framed(b"\0\0\0\x09\0\0\0\1\0\1c" + b"\xff" * 20),
}


@pytest.mark.parametrize("data", NOT_KAFKA.values(), ids=NOT_KAFKA.keys())
def test_any_bytes_go_through_as_they_are(served: Serving, tmp_path: Path, data: bytes) -> None:
    with _echo() as port:
        capture = Capture(served, tmp_path, port)
        with socket.create_connection(("127.0.0.1", capture.port), timeout=20) as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            back = b""
            while part := client.recv(65_536):
                back += part
        capture.stop()
    assert back == data


@pytest.mark.parametrize("data", NOT_KAFKA.values(), ids=NOT_KAFKA.keys())
def test_whatever_a_broker_sends_goes_through_as_it_is(served: Serving, tmp_path: Path, data: bytes) -> None:
    with _echo(instead=data) as port:
        capture = Capture(served, tmp_path, port)
        with socket.create_connection(("127.0.0.1", capture.port), timeout=20) as client:
            client.sendall(framed(codec.encode_request(API_VERSIONS, 0, 1, "c", {})))
            client.shutdown(socket.SHUT_WR)
            back = b""
            while part := client.recv(65_536):
                back += part
        capture.stop()
    assert back == data


def test_many_and_large_frames_go_through(served: Serving, tmp_path: Path) -> None:
    with _echo() as port:
        capture = Capture(served, tmp_path, port)
        frames = [framed(codec.encode_request(12, 0, number, "c", HEARTBEAT)) for number in range(3000)]
        data = b"".join((*frames, framed(b"\x7f\xff" + b"x" * (8 << 20)), *frames))
        with socket.create_connection(("127.0.0.1", capture.port), timeout=60) as client:
            sender = threading.Thread(target=_send_all, args=(client, data))
            sender.start()
            back = bytearray()
            while part := client.recv(1 << 20):
                back += part
            sender.join()
        capture.stop()
    assert back == data
    assert capture.recorder.written + capture.recorder.lost == 1000


def _send_all(client: socket.socket, data: bytes) -> None:
    client.sendall(data)
    client.shutdown(socket.SHUT_WR)


HEARTBEAT = {"group_id": "g", "generation_id": 3, "member_id": "m"}


def test_a_broker_that_is_not_there_closes_the_connection(served: Serving, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    capture = Capture(served, tmp_path, port)
    with capture.connect() as client:
        assert client.is_closed()
    capture.stop()


def test_when_one_side_goes_the_other_does(served: Serving, capture: Capture) -> None:
    before = set(served.gateway.connections)
    with capture.connect() as client:
        client.exchange(METADATA, 4, NO_TOPICS)
        (connection,) = (each for number, each in served.gateway.connections.items() if number not in before)

        async def close() -> None:
            connection.close()

        served.run(close())
        assert client.is_closed()
    with capture.connect() as client:
        client.exchange(METADATA, 4, NO_TOPICS)
        client.reset()
    eventually(lambda: set(served.gateway.connections), lambda left: left <= before, "the gateway's connections end")
