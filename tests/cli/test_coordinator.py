"""Gateways and coordinators that move, hang up or speak another protocol, as seen by the client of the commands."""

from __future__ import annotations

import http.server
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from muster.actors.log.format.batch import read_header
from muster.actors.log.format.records import build_batch
from muster.actors.runtime.settings import CLUSTER_ID_HEADER
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.cli import http as cli_http
from muster.gateway.cli import messages
from muster.gateway.cli.client import cluster, reader
from muster.gateway.cli.client import gateways as client_gateways
from muster.gateway.cli.client.gateways import Coordinator, Gateways
from muster.gateway.cli.client.producer import Producer
from muster.gateway.cli.groups.commands import groups
from muster.gateway.cli.storage import directory as storage
from muster.gateway.client.errors import MusterError
from muster.gateway.client.groups import offsets
from muster.gateway.client.kafka import brokers
from muster.gateway.client.kafka import requests as kafka_requests
from muster.gateway.client.security import ClientTls, Login, Security
from muster.placement.hashing import partition_of
from tests.cli.runner import runner

FIND, DELETE, METADATA = 10, 42, 3
NO_RAY = "127.0.0.1:1"
OTHER = (200, b'{"cluster_id": "other"}')
"""The response of a server that does not say that it is of the same cluster."""
Responder = Callable[[int, bytes], bytes | None]
"""The server's port and a request's frame -> the bytes of the response; None hangs up."""


@contextmanager
def listening(response: Responder) -> Iterator[str]:
    """Responds to the requests of every connection; HOST:PORT."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with suppress(ConnectionError), connection, connection.makefile("rwb") as stream:
                    while size := stream.read(4):
                        reply = response(port, stream.read(int.from_bytes(size, "big")))
                        if reply is None:
                            break
                        stream.write(reply)
                        stream.flush()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{port}"
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)


class Broker:
    """Speaks FindCoordinator and DeleteGroups; ``script`` has the error of each response, in order; None hangs up."""

    def __init__(self, *script: tuple[int, ErrorCode | None]) -> None:
        self.script = list(script)

    def __call__(self, port: int, frame: bytes) -> bytes | None:
        header = codec.decode_header(frame)
        api_key, error = self.script.pop(0)
        assert header.api_key == api_key
        if error is None:
            return None
        if api_key == FIND:
            found = {"key": "g", "node_id": 1, "host": "127.0.0.1", "port": port, "error_code": error}
            body: dict[str, Any] = {"coordinators": [{**found, "error_message": None}]}
        else:
            body = {"results": [{"group_id": "g", "error_code": error}]}
        reply = codec.encode_response(api_key, header.api_version, header.correlation_id, {"throttle_time": 0, **body})
        return len(reply).to_bytes(4, "big") + reply


def test_a_request_is_repeated_until_the_coordinator_is_available() -> None:
    none = ErrorCode.none
    broker = Broker(
        (FIND, None),
        (FIND, ErrorCode.coordinator_not_available),
        (FIND, none),
        (DELETE, ErrorCode.not_coordinator),
        (FIND, none),
        (DELETE, None),
        (FIND, none),
        (DELETE, ErrorCode.coordinator_load_in_progress),
        (FIND, none),
        (DELETE, ErrorCode.non_empty_group),
        (DELETE, none),
    )
    with listening(broker) as address, Coordinator(f"127.0.0.1:1,{address}", "g") as found:
        assert offsets.delete_group(found) is ErrorCode.non_empty_group
        assert offsets.delete_group(found) is none
    assert broker.script == []


def test_a_coordinator_that_may_not_be_found_is_said_at_once() -> None:
    broker = Broker((FIND, ErrorCode.group_authorization_failed))
    refusal = "the coordinator of group g cannot be found: GROUP_AUTHORIZATION_FAILED"
    with listening(broker) as address, Coordinator(address, "g") as found, pytest.raises(MusterError, match=refusal):
        offsets.delete_group(found)
    assert broker.script == []


def test_only_what_was_not_written_is_sent_again() -> None:
    """Each partition has a batch in the request, and the leader of one of them moves."""
    requests: list[dict[int, int]] = []
    not_leader = ErrorCode.not_leader_or_follower

    def respond(_: int, frame: bytes) -> bytes:
        header = codec.decode_header(frame)
        if header.api_key == METADATA:
            leader = {"leader_id": 1, "leader_epoch": 0, "replica_nodes": [1], "isr_nodes": [1]}
            partitions = [
                {"error_code": 0, "partition_index": each, **leader, "offline_replicas": []} for each in range(2)
            ]
            topic = {"error_code": 0, "name": "t", "topic_id": None, "is_internal": False, "partitions": partitions}
            topics = [{**topic, "topic_authorized_operations": 0}]
            body: dict[str, Any] = {"brokers": [], "cluster_id": None, "controller_id": 1, "topics": topics}
        else:
            data = codec.decode_request(header, frame).topic_data[0].partition_data
            requests.append({each.index: read_header(each.records).record_count for each in data})
            nothing: dict[str, Any] = {
                "base_offset": 0,
                "log_append_time": None,
                "log_start_offset": 0,
                "record_errors": [],
            }
            results = [
                {"index": each.index, "error_code": not_leader if len(requests) < 3 and each.index else 0, **nothing}
                for each in data
            ]
            responses = [{"name": "t", "partition_responses": [{**each, "error_message": None} for each in results]}]
            body = {"responses": responses}
        reply = codec.encode_response(
            header.api_key, header.api_version, header.correlation_id, {"throttle_time": 0, **body}
        )
        return len(reply).to_bytes(4, "big") + reply

    keys = {partition_of(bytes([number]), 2): bytes([number]) for number in range(9)}
    with listening(respond) as address, Gateways(address) as client:
        producer = Producer(client, "t", None, ())
        producer.send([(keys[0], b"1"), (keys[1], b"2"), (keys[1], b"3")])
    assert requests == [{0: 1, 1: 2}, {1: 2}, {1: 2}]
    assert (producer.acknowledged, producer.failed, producer.error) == (3, 0, None)


def test_lines_are_messages_as_soon_as_they_are_whole() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as stdin, open(writing, "wb", buffering=0) as shell:  # noqa: PTH123 - descriptors
        batches = messages._batches(stdin, None)
        shell.write(b"one\ntwo\nth")
        assert next(batches) == [(None, b"one"), (None, b"two")]
        shell.write(b"ree\n\n")
        assert next(batches) == [(None, b"three"), (None, b"")]
        shell.write(b"last")
        shell.close()
        assert list(batches) == [[(None, b"last")]]


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (lambda port, frame: None, "closed the connection"),
        (lambda port, frame: b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Kafka's protocol"),
        (lambda port, frame: b"\xff\xff\xff\xff", "does not speak Kafka's protocol"),
        (lambda port, frame: (3).to_bytes(4, "big") + b"abc", "does not speak Kafka's protocol"),
        (lambda port, frame: (9).to_bytes(4, "big") + b"\0\0\0\1" + b"\xff" * 5, "does not speak Kafka's protocol"),
    ],
)
def test_who_is_no_coordinator(response: Responder, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "TIMEOUT_S", 2.0)  # even a busy machine responds once within it
    with (
        listening(response) as address,
        Coordinator(address, "g") as found,
        pytest.raises(MusterError, match=f"coordinator of group g does not respond .*{why}"),
    ):
        offsets.delete_group(found)


@pytest.mark.parametrize("iterations", ["1", "2000000000", "many"])
def test_a_server_that_would_have_a_password_hashed_its_way(iterations: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, to guess it, or for an hour: no proof is sent. The limits are those of scramp 1.4.10."""
    security = Security("SASL_PLAINTEXT", Login("SCRAM-SHA-256", "ann", "secret"), ClientTls(None))
    monkeypatch.setattr(client_gateways, "current_security", lambda: security)
    proofs = []

    def demand(port: int, frame: bytes) -> bytes:
        header = codec.decode_header(frame)
        proofs.extend(re.findall(rb",p=.*", frame))
        body: dict[str, Any] = {"error_code": ErrorCode.none, "mechanisms": ["SCRAM-SHA-256"]}
        if nonce := re.search(rb"r=([\w+/=-]+)", frame):
            first = f"r={nonce[1].decode()}more,s={'A' * 24},i={iterations}"
            body = {"error_code": ErrorCode.none, "auth_bytes": first.encode(), "error_message": None}
        reply = codec.encode_response(header.api_key, header.api_version, header.correlation_id, body)
        return len(reply).to_bytes(4, "big") + reply

    with (
        listening(demand) as address,
        Coordinator(address, "g") as found,
        pytest.raises(MusterError, match="the login failed"),
    ):
        offsets.delete_group(found)
    assert proofs == []


@contextmanager
def gateways(directory: Path, *responses: tuple[int, bytes] | None, urls: Iterable[str] = ()) -> Iterator[list[str]]:
    """Serve these HTTP responses as the gateways of a Muster with a state file. Yields the paths of requests.

    None is a gateway that is not running. PATH in a response is the request's path. ``urls``: further gateways.
    """
    servers, found = [], []
    requests: list[str] = []
    for response in responses:

        class Handler(http.server.BaseHTTPRequestHandler):
            status, body = response or (0, b"")
            is_own = response is not OTHER

            def do_GET(self) -> None:
                requests.append(self.path)
                self.send_response(self.status)
                if self.is_own:
                    self.send_header(CLUSTER_ID_HEADER, self.headers[CLUSTER_ID_HEADER])
                self.end_headers()
                self.wfile.write(self.body.replace(b"PATH", self.path.encode()))

            def log_message(self, *_: Any) -> None:
                """Suppress the server's log."""

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        found.append(f"http://127.0.0.1:{server.server_port}/metrics")
        if response is None:
            server.server_close()
            continue
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
    (directory / "run").mkdir()
    with storage.locked(directory):
        state = storage.RunState(
            pid=1,
            namespace="n",
            ray_address=NO_RAY,
            ray_token_path=None,
            ray_temp_dir=None,
            metrics=(*found, *urls),
            cluster_id="own",
        )
        storage.write_state(directory, state)
        yield requests
    for server in servers:
        server.shutdown()
        server.server_close()


def test_any_gateway_may_respond_over_http(tmp_path: Path) -> None:
    foreign = [(404, b"<html>"), (500, b"[]"), (404, b'{"detail": "no"}'), (200, b"no JSON"), (200, b"[]")]
    with gateways(tmp_path, None, *foreign, OTHER, (200, b'{"path": "PATH"}')):
        assert cli_http.get_json(tmp_path, None, "/v1/x", group="a &/\u00fc") == {"path": "/v1/x?group=a+%26%2F%C3%BC"}


def test_a_refusal_of_a_gateway_over_http_is_reported(tmp_path: Path) -> None:
    with gateways(tmp_path, (503, b'{"error": "no"}')), pytest.raises(cli_http.HttpError) as refused:
        cli_http.get_json(tmp_path, None, "/v1/x")
    assert (refused.value.status, refused.value.message) == (503, "no")


@pytest.mark.parametrize("command", [["lag", "billing"], ["history", "billing"]])
def test_a_server_that_is_no_gateway_knows_no_groups(tmp_path: Path, command: list[str]) -> None:
    with gateways(tmp_path, (404, b"<html>")):
        done = runner().invoke(groups, [*command, "--storage", str(tmp_path)])
    assert "does not respond (HTTP 404, not from Muster)" in done.stderr
    assert "there is no group" not in done.stderr


def test_a_gateway_that_is_silent_does_not_keep_the_others_from_being_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is paused: the kernel accepts for it."""
    monkeypatch.setattr(cluster, "_MIN_EACH_S", 0.1)
    with ExitStack() as opened:
        silent = [opened.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(4)]
        address = opened.enter_context(listening(_metadata))
        bootstrap = ",".join((*(f"127.0.0.1:{each.getsockname()[1]}" for each in silent), address))
        with cluster.admin(bootstrap, reach_s=0.3) as client:
            assert kafka_requests.metadata(client).topics == {}


def test_the_limit_of_the_first_response_is_not_that_of_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic may take longer to be created than a gateway takes to respond at all."""
    monkeypatch.setattr(cluster, "_MIN_EACH_S", 0.1)
    requests: list[bytes] = []

    def respond(port: int, frame: bytes) -> bytes:
        requests.append(frame)
        if len(requests) > 1:
            time.sleep(1.0)
        return _metadata(port, frame)

    with listening(respond) as address, cluster.admin(address, reach_s=0.5) as client:
        body = {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
        assert client.request(*kafka_requests.METADATA, body, is_repeatable=False).topics == ()
    assert len(requests) == 2


def _metadata(_: int, frame: bytes) -> bytes:
    header = codec.decode_header(frame)
    body = {"throttle_time": 0, "brokers": [], "cluster_id": None, "controller_id": 1, "topics": []}
    reply = codec.encode_response(header.api_key, header.api_version, header.correlation_id, body)
    return len(reply).to_bytes(4, "big") + reply


@pytest.mark.parametrize(
    ("bootstrap", "said"),
    [(",", "there is no HOST:PORT in ','"), ("a..b:9092", "a..b is no name of a host")],
)
def test_an_address_that_cannot_be_one(bootstrap: str, said: str) -> None:
    with pytest.raises(MusterError, match=re.escape(said)):
        cluster.admin(bootstrap, reach_s=0.1)


def test_a_coordinator_that_is_not_ready_is_not_said_to_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(*[(FIND, ErrorCode.none), (DELETE, ErrorCode.coordinator_load_in_progress)] * 50)
    with listening(broker) as address, Coordinator(address, "g") as found:
        body = {"groups_names": ["g"]}
        with pytest.raises(MusterError, match=r"coordinator of group g is not ready \(COORDINATOR_LOAD_IN_PROGRESS\)"):
            found.request(DELETE, 2, body, timeout_s=0.3)


def test_a_partition_that_cannot_be_read_does_not_hide_the_others() -> None:
    """Its log moves. The one before it has a message."""

    def respond(_: int, frame: bytes) -> bytes:
        header = codec.decode_header(frame)
        ends = {"high_watermark": 1, "last_stable_offset": 1, "log_start_offset": 0, "aborted_transactions": None}
        rest = {**ends, "preferred_read_replica": -1}
        partitions = [
            {"partition_index": 0, "error_code": 0, **rest, "records": bytes(build_batch([(None, b"v")], 0, 0, 0))},
            {"partition_index": 1, "error_code": ErrorCode.kafka_storage_error, **rest, "records": None},
        ]
        responses = [{"topic": "t", "partitions": partitions}]
        body = {"throttle_time": 0, "error_code": 0, "session_id": 0, "responses": responses}
        reply = codec.encode_response(header.api_key, header.api_version, header.correlation_id, body)
        return len(reply).to_bytes(4, "big") + reply

    with listening(respond) as address, Gateways(address) as client:
        received = next(reader.messages(client, "t", {0: 0, 1: 0}))
    assert (received.partition, received.record.value) == (0, b"v")


def test_a_partition_that_cannot_be_read_is_not_requested_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses_s: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses_s.append)
    ends = {"high_watermark": 1, "last_stable_offset": 1, "log_start_offset": 0, "aborted_transactions": None}
    rest = {**ends, "preferred_read_replica": -1, "records": None}
    error = {**rest, "partition_index": 1, "error_code": ErrorCode.kafka_storage_error}

    def respond(_: int, frame: bytes) -> bytes:
        header = codec.decode_header(frame)
        batch = bytes(build_batch([(None, b"v")], 0, 0, 0)) if len(pauses_s) == 2 else None
        partitions = [{**rest, "partition_index": 0, "error_code": 0, "records": batch}, error]
        responses = [{"topic": "t", "partitions": partitions}]
        body = {"throttle_time": 0, "error_code": 0, "session_id": 0, "responses": responses}
        reply = codec.encode_response(header.api_key, header.api_version, header.correlation_id, body)
        return len(reply).to_bytes(4, "big") + reply

    with listening(respond) as address, Gateways(address) as client:
        assert next(reader.messages(client, "t", {0: 0, 1: 0})).record.value == b"v"
    assert pauses_s == [reader._PAUSE_S] * 2


def test_a_partition_that_stays_unreadable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_PATIENCE_S", 0.0)
    failed = {"partition_index": 1, "error_code": ErrorCode.kafka_storage_error, "high_watermark": -1}

    def respond(_: int, frame: bytes) -> bytes:
        header = codec.decode_header(frame)
        nothing = {"last_stable_offset": -1, "log_start_offset": -1, "aborted_transactions": None, "records": None}
        responses = [{"topic": "t", "partitions": [{**failed, **nothing, "preferred_read_replica": -1}]}]
        body = {"throttle_time": 0, "error_code": 0, "session_id": 0, "responses": responses}
        reply = codec.encode_response(header.api_key, header.api_version, header.correlation_id, body)
        return len(reply).to_bytes(4, "big") + reply

    with listening(respond) as address, Gateways(address) as client, pytest.raises(MusterError, match="KAFKA_STORAGE"):
        next(reader.messages(client, "t", {1: 0}))
