"""Faults that a connection survives or is closed for: bad frames, clients that do not read, limits. Real TCP."""

from __future__ import annotations

import gc
import logging
import random
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.limited_log import LimitedLog
from muster.gateway.listener.api import APIS
from muster.gateway.listener.connection import PIPELINE_LIMIT, Connection
from muster.placement.zookeeper.client import ZooKeeperClient
from tests.gateway.apis.test_data_apis import FETCH, PRODUCE, fetch_body, produce
from tests.gateway.group_client import HEARTBEAT, JOIN_GROUP, Member, find
from tests.gateway.serving import Client, Serving, serving
from tests.log.support import client_batch
from tests.zookeeper_fixture import eventually

API_VERSIONS = 18
PROPERTIES = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}

Fresh = Callable[[str], str]


class Heard(logging.Handler):
    """Keeps the log, in every phase of a test."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.name, record.getMessage()))


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """Yield a function that returns the log about connections since the last call.

    At the end there may be no other lines, including asyncio's.

    Every line is written: tests/runtime/test_limited_log.py is about those that are not.
    """
    monkeypatch.setattr(LimitedLog, "_is_first", lambda *_: True)
    gc.collect()  # so that asyncio reports leftovers of other tests now
    heard = Heard()

    def take() -> list[str]:
        lines = [text for name, text in heard.lines if name == "muster.gateway.listener.connection"]
        assert [line for line in lines if " closed: " not in line] == []
        heard.lines = [(name, text) for name, text in heard.lines if name != "muster.gateway.listener.connection"]
        return lines

    logging.getLogger().addHandler(heard)
    try:
        yield take
        gc.collect()
        assert [line for line in heard.lines if line[0] in ("asyncio", "muster.gateway.listener.connection")] == []
    finally:
        logging.getLogger().removeHandler(heard)


def works(client: Client) -> bool:
    return bool(client.exchange(API_VERSIONS, 0, {}).error_code is ErrorCode.none)


def ends_with(full: Serving, said: Callable[[], list[str]], send: Callable[[Client], None]) -> str:
    """Return the one line about a connection that is closed because of its input."""
    with full.connect() as client:
        send(client)
        assert client.is_closed()
        (line,) = said()
        assert f"127.0.0.1:{client.port} closed: " in line
    assert works(full.client)
    return line.partition(" closed: ")[2]


def request(api_key: int, version: int, body: bytes = b"", client_id: bytes = b"\xff\xff") -> bytes:
    return (
        api_key.to_bytes(2, "big", signed=True)
        + version.to_bytes(2, "big", signed=True)
        + b"\0\0\0\1"
        + client_id
        + body
    )


def client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="muster.test")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


RAW = {
    "too long": ((1 << 30).to_bytes(4, "big"), "a frame of 1073741824 bytes is announced, the limit is 104857600"),
    "negative": (b"\xff\xff\xff\xff", "a frame of -1 bytes is announced"),
    "TLS": (client_hello(), "this looks like TLS: the listener is PLAINTEXT, set security.protocol=PLAINTEXT"),
    "HTTP": (b"GET /metrics HTTP/1.1\r\nHost: muster\r\n\r\n", "this looks like HTTP"),
}
FRAMES = {
    "empty": (b"", "a frame of 0 bytes has no request header"),
    "no header": (b"\0\x12\0\0\0", "a frame of 5 bytes has no request header"),
    "unknown api": (request(999, 0), "api key 999 version 0 is not served"),
    "negative api": (request(-3, 0), "api key -3 version 0 is not served"),
    "not served api": (request(53, 0), "BeginQuorumEpoch version 0 of client None is not served"),
    "unknown version": (
        request(PRODUCE, 99, client_id=b"\0\1a"),
        "Produce version 99 of client 'a' is not served, 3 to 13 are; let it ask with ApiVersions",
    ),
    "old version": (
        request(PRODUCE, 2, client_id=b"\0\1b"),
        "Produce version 2 of client 'b' is not served, 3 to 13 are; let it speak the protocol of Kafka 2.1 or later",
    ),
    "no body": (request(3, 9, b"\0"), "MetadataRequest v9: the message ends in the middle"),
    "client id": (request(API_VERSIONS, 0, client_id=b"\0\2\xff\xfe"), "request header of api key 18: UnicodeDecode"),
    "group id": (request(HEARTBEAT, 0, b"\0\2\xff\xfe\0\0\0\0\0\0"), "HeartbeatRequest v0: UnicodeDecode"),
    "null group id": (request(HEARTBEAT, 0, b"\xff\xff\0\0\0\0\0\0"), "HeartbeatRequest v0: "),
    "varint": (request(JOIN_GROUP, 9, b"\0" + b"\xff" * 20_000), "JoinGroupRequest v9: a varint of more than 5 bytes"),
}


@pytest.mark.parametrize("name", RAW)
def test_what_is_no_frame_closes_the_connection(full: Serving, said: Callable[[], list[str]], name: str) -> None:
    data, reason = RAW[name]
    assert reason in ends_with(full, said, lambda client: client.send_raw(data))


@pytest.mark.parametrize("name", FRAMES)
def test_what_is_no_request_closes_the_connection(full: Serving, said: Callable[[], list[str]], name: str) -> None:
    frame, reason = FRAMES[name]
    line = ends_with(full, said, lambda client: client.send(frame))
    assert reason in line
    assert len(line) <= 300


@pytest.mark.parametrize("api_key", sorted(APIS))
def test_an_array_is_not_believed_to_be_as_long_as_it_says(
    full: Serving, said: Callable[[], list[str]], api_key: int
) -> None:
    """kio reserves memory for the announced size, and a failed reservation ends the process."""
    rng = random.Random(api_key)
    for version in APIS[api_key].versions:
        flexible = codec.request_type(api_key, version).__flexible__
        many = b"\xff\xff\xff\xff\x0f" if flexible else b"\x7f\xff\xff\xff"
        for _ in range(8):
            body = bytes(rng.choice((0, 0, 1, 2)) for _ in range(rng.randrange(40))) + many * 12
            with full.connect() as client:
                client.send(request(api_key, version, (b"\0" if flexible else b"") + body))
                client.finish()
                while not client.is_closed():
                    pass
            assert len(said()) <= 1
    assert works(full.client)


def test_a_version_of_api_versions_that_is_unknown_is_answered(full: Serving) -> None:
    with full.connect() as client:
        client.send(request(API_VERSIONS, 99, b"whatever"))
        _, response = codec.decode_response(API_VERSIONS, 0, client.receive())
        assert response.error_code is ErrorCode.unsupported_version
        assert [item.api_key for item in response.api_keys] == [API_VERSIONS]


def test_random_bytes(full: Serving, said: Callable[[], list[str]]) -> None:
    rng = random.Random(20240229)
    for _ in range(300):
        data = rng.randbytes(rng.choice((1, 3, 4, 5, 20, 200, 5000)))
        if rng.random() < 0.5:
            data = request(rng.choice(list(APIS)), rng.randrange(14), data)
            data = len(data).to_bytes(4, "big") + data
        with full.connect() as client:
            client.send_raw(data)
            client.finish()
            while not client.is_closed():
                pass
            lines = said()
            assert len(lines) <= 1
            assert all(f":{client.port} closed: " in line for line in lines)
    assert works(full.client)


def test_every_truncation_of_a_join_harms_nobody_else(
    full: Serving, fresh: Fresh, said: Callable[[], list[str]]
) -> None:
    """The group's actor serves them all over one channel."""
    group = fresh("g")
    find(full.client, 4, group)
    with full.connect() as one, full.connect() as two:
        first, second = Member(one, group), Member(two, group)
        first.join()
        second.request_join()
        assert second.joined().error_code is ErrorCode.member_id_required
        second.request_join()
        for version in (0, 9):
            frame = codec.encode_request(JOIN_GROUP, version, 1, "c", {**JOIN, "group_id": group})
            for cut in range(len(frame)):
                ends_with(full, said, lambda client, data=frame[:cut]: client.send(data))
        first.join()
        assert second.joined().error_code is ErrorCode.none


JOIN = {
    "session_timeout": 30_000,
    "rebalance_timeout": 30_000,
    "member_id": "",
    "group_instance_id": None,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b"m"}],
    "reason": None,
}


def test_many_bad_requests_behind_one_that_waits(full: Serving, said: Callable[[], list[str]]) -> None:
    """The request that waits is answered, and the first bad one is reported; all have come at once."""
    topic = full.create("waited", 1)
    with full.connect() as client:
        client.request(FETCH, 12, fetch_body((topic, 0, 0), max_wait=300, min_bytes=1))
        bad = request(HEARTBEAT, 0, b"\0\2\xff\xfe\0\0\0\0\0\0")
        client.send_raw((len(bad).to_bytes(4, "big") + bad) * 255)
        assert client.response(FETCH, 12).responses[0].partitions[0].error_code is ErrorCode.none
        assert client.is_closed()
    (line,) = said()
    assert "HeartbeatRequest v0: UnicodeDecodeError" in line


def test_a_request_that_is_cut_off_is_logged(full: Serving, said: Callable[[], list[str]]) -> None:
    def cut(client: Client) -> None:
        client.send_raw(b"\0\0\0\x20" + b"x" * 10)
        client.finish()

    assert ends_with(full, said, cut) == "the client closed it in the middle of a request, 14 bytes had come"


def test_many_bad_clients_have_few_lines_and_a_count(served: Serving, caplog: pytest.LogCaptureFixture) -> None:
    """Each kind of complaint, and each API that it is about, has its own limit; so has each reason in /metrics."""
    kinds = {
        "tls": RAW["TLS"][0],
        "http": RAW["HTTP"][0],
        "frame_size": RAW["negative"][0],
        "not_served": b"\0\0\0\x0a" + request(999, 0),
        "unreadable": b"\0\0\0\x0b" + request(3, 9, b"\0"),
    }
    other_api = request(HEARTBEAT, 0, b"\0\2\xff\xfe\0\0\0\0\0\0")
    for number in range(8):
        for data in (*kinds.values(), len(other_api).to_bytes(4, "big") + other_api):
            with served.connect() as client:
                client.send_raw(data)
                assert client.is_closed()
        if not number:
            first = len(caplog.messages)
    assert first == len(caplog.messages) == len(kinds) + 1
    _, scraped = served.http("/metrics")
    for reason in kinds:
        count = 16 if reason == "unreadable" else 8
        assert f'muster_connections_closed_total{{gateway="1",reason="{reason}"}} {count}\n' in scraped
    caplog.clear()
    served.flush_complaints()
    assert len(caplog.messages) == len(kinds) + 1
    assert all(line.startswith("and 7 more from 127.0.0.1 in the last 60 s like this: ") for line in caplog.messages)
    assert sum("looks like TLS" in line for line in caplog.messages) == 1


def test_what_came_before_a_bad_request_is_answered(full: Serving, fresh: Fresh, said: Callable[[], list[str]]) -> None:
    topic = full.create(fresh("t"))
    with full.connect() as client:
        client.request(FETCH, 18, fetch_body((topic, 0, 0), max_wait=200, min_bytes=1))
        for _ in range(3):
            client.send(request(999, 0))
        assert len(client.response(FETCH, 18).responses) == 1
        assert client.is_closed()
    assert len(said()) == 1


def test_what_came_before_a_bad_size_is_answered(full: Serving, fresh: Fresh, said: Callable[[], list[str]]) -> None:
    """All of it comes with one read, and nothing behind it is served."""
    topic = full.create(fresh("t"))
    with full.connect() as client:
        wait = pipeline(FETCH, 18, fetch_body((topic, 0, 0), max_wait=200, min_bytes=1), 1)
        ping = pipeline(API_VERSIONS, 0, {}, 1)
        client.send_raw(wait + ping + RAW["negative"][0] + ping)
        assert len(codec.decode_response(FETCH, 18, client.receive())[1].responses) == 1
        assert codec.decode_response(API_VERSIONS, 0, client.receive())[1].error_code is ErrorCode.none
        assert client.is_closed()
    (line,) = said()
    assert RAW["negative"][1] in line


def test_many_bad_requests_that_wait_behind_a_good_one(
    full: Serving, fresh: Fresh, said: Callable[[], list[str]]
) -> None:
    """They fail before their responses are due; by then the connection has been closed."""
    topic = full.create(fresh("t"))
    with full.connect() as client:
        client.request(FETCH, 18, fetch_body((topic, 0, 0), max_wait=60_000, min_bytes=1))
        for _ in range(10):
            client.send(request(HEARTBEAT, 0, b"\0\5"))
        eventually(lambda: failed(full) >= 10, "failures of heartbeats")
    eventually(lambda: len(full.gateway.connections) == 1, "the end of the connection")


def failed(full: Serving) -> int:
    """Unreadable heartbeats so far."""
    return sum(
        int(sample.value)
        for family in text_string_to_metric_families(full.http("/metrics")[1])
        for sample in family.samples
        if sample.name.endswith("requests_total")
        and (sample.labels["api"], sample.labels["error"]) == ("Heartbeat", "UNDECODABLE")
    )


def connection_of(full: Serving, client: Client) -> Connection:
    found = next(item for item in full.gateway.connections.values() if item.port == client.port)
    assert isinstance(found, Connection)
    return found


def test_a_client_that_does_not_read_is_not_read(full: Serving, fresh: Fresh) -> None:
    topic, count, value = full.create(fresh("t")), 120, b"v" * 900_000
    produce(full.client, (topic, 0, client_batch(1, value=value)))
    with full.connect() as client:
        works(client)
        connection = connection_of(full, client)
        client.send_raw(pipeline(FETCH, 18, fetch_body((topic, 0, 0)), count))
        eventually(lambda: not connection._is_writable, "a full socket")
        for _ in range(20):
            assert works(full.client)
        transport = connection._transport
        assert transport is not None
        assert transport.get_write_buffer_size() < 2 * len(value)
        assert not connection._is_reading
        assert len(connection._requests) <= 1
        for number in range(count):
            correlation_id, response = codec.decode_response(FETCH, 18, client.receive())
            assert correlation_id == number
            assert len(response.responses[0].partitions[0].records) > len(value)
        eventually(lambda: connection._is_reading, "reading")


def pipeline(api_key: int, version: int, body: dict[str, Any], count: int) -> bytes:
    frames = (codec.encode_request(api_key, version, number, "c", body) for number in range(count))
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


def test_thousands_of_pipelined_requests_are_answered_in_order(full: Serving, fresh: Fresh) -> None:
    group, count = fresh("g"), 20 * PIPELINE_LIMIT
    find(full.client, 4, group)
    body = {"group_id": group, "generation_id": 1, "member_id": "nobody", "group_instance_id": None}
    with full.connect() as client:
        client.send_raw(pipeline(HEARTBEAT, 4, body, count))
        for number in range(count):
            correlation_id, response = codec.decode_response(HEARTBEAT, 4, client.receive())
            assert (correlation_id, response.error_code) == (number, ErrorCode.unknown_member_id)


def test_a_member_whose_connection_closes_while_it_joins(full: Serving, fresh: Fresh) -> None:
    """The coordinator does not see it, as in Kafka; the member remains until its session ends."""
    group = fresh("g")
    find(full.client, 4, group)
    stays = Member(full.client, group)
    stays.join()
    with full.connect() as client:
        goes = Member(client, group)
        goes.request_join(session_timeout_ms=3_000)
        assert goes.joined().error_code is ErrorCode.member_id_required
        goes.request_join(session_timeout_ms=3_000)
        eventually(lambda: stays.heartbeat() is ErrorCode.rebalance_in_progress, "the rebalance")
    eventually(lambda: len(full.gateway.connections) == 1, "the end of the connection")
    assert {item.member_id for item in stays.join().members} == {stays.id, goes.id}
    stays.sync({stays.id: b"half", goes.id: b"half"})
    eventually(lambda: stays.heartbeat() is ErrorCode.rebalance_in_progress, "the end of the session")
    assert [item.member_id for item in stays.join().members] == [stays.id]


def test_a_client_that_is_gone_before_it_is_accepted(full: Serving, said: Callable[[], list[str]]) -> None:
    """``said`` fails if asyncio complains."""
    may_go_on, stands_still = threading.Event(), threading.Event()

    async def stand_still() -> None:
        stands_still.set()
        may_go_on.wait(30)

    loop = threading.Thread(target=full.run, args=(stand_still(),))
    loop.start()
    assert stands_still.wait(30)
    with full.connect() as client:
        client.send_raw(pipeline(API_VERSIONS, 0, {}, 1))
        client.reset()
    may_go_on.set()
    loop.join(30)
    with full.connect() as other:
        assert works(other)
    assert said() == []


@pytest.mark.parametrize("served", [{"socket.request.max.bytes": "100"}], indirect=True)
def test_socket_request_max_bytes(served: Serving, said: Callable[[], list[str]]) -> None:
    line = ends_with(served, said, lambda client: client.send(b"x" * 101))
    assert line == "a frame of 101 bytes is announced, the limit is 100"
    with served.connect() as client:
        client.send_raw(pipeline(API_VERSIONS, 0, {}, 50))
        assert [int.from_bytes(client.receive()[:4], "big") for _ in range(50)] == list(range(50))


def test_idle_connections_are_closed(zk: ZooKeeperClient, tmp_path: Path, said: Callable[[], list[str]]) -> None:
    """Not while a request waits, however long; and without a line in the log: it is no error."""
    with serving(zk, tmp_path, {"connections.max.idle.ms": "3000"}, with_actors=True) as served:
        topic = served.create("t")
        with served.connect() as idle, served.connect() as busy:
            busy.request(FETCH, 18, fetch_body((topic, 0, 0), max_wait=5000, min_bytes=1))
            assert works(idle)
            assert idle.is_closed()
            assert len(busy.response(FETCH, 18).responses) == 1
            assert works(busy)
            assert busy.is_closed()


def test_a_client_that_never_reads_is_closed_all_the_same(
    full: Serving, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.gateway.listener.connection._CLOSE_S", 0.1)
    topic = full.create(fresh("t"))
    produce(full.client, (topic, 0, client_batch(1, value=b"v" * 900_000)))
    with full.connect() as client:
        works(client)
        connection = connection_of(full, client)
        client.send_raw(pipeline(FETCH, 18, fetch_body((topic, 0, 0)), 120))
        eventually(lambda: not connection._is_writable, "a full socket")

        async def close() -> None:
            connection.close()

        full.run(close())
        eventually(lambda: connection.id not in full.gateway.connections, "the end of the connection")
