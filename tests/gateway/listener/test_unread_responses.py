"""Clients that request large responses and do not read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.actors.log.fetch import Fetches
from muster.actors.wire.internal import listener
from muster.actors.wire.internal.fetch import Place
from muster.gateway.apis.data.fetching import segment_files
from muster.gateway.listener.connection import Connection
from muster.gateway.listener.file_records import FileRecords
from muster.gateway.listener.limiting.response_memory import ResponseMemory
from muster.placement.view import Topic
from tests.gateway.apis.test_data_apis import FETCH, fetch, fetch_body, produce, values
from tests.gateway.apis.test_failed_fetches import channels
from tests.gateway.group_client import Member, find
from tests.gateway.listener.test_connection import connection_of, works
from tests.gateway.serving import Client, Serving
from tests.log.support import client_batch
from tests.zookeeper_fixture import eventually

LIMIT_BYTES = 4 << 20
PROPERTIES = {"queued.max.response.bytes": str(LIMIT_BYTES)}
BATCHES, VALUE_BYTES = 16, 900_000
READERS = 8
LARGE: dict[str, Any] = {"partition_max_bytes": 1 << 30, "max_bytes": 1 << 30}
HELD_BYTES = 16 << 10


@pytest.fixture(scope="module")
def topic(full: Serving) -> Topic:
    """One partition of 14 MB."""
    topic = full.create("large", 1)
    for number in range(BATCHES):
        produce(full.client, (topic, 0, client_batch(1, value=bytes([number]) * VALUE_BYTES)))
    return topic


@contextmanager
def unread(full: Serving, topic: Topic, count: int = 1) -> Iterator[list[tuple[Client, Connection]]]:
    """Clients that have requested all of it, of which each socket holds a part.

    None gets a shorter response, as it may while another waits for its turn or for the disk.
    """
    clients = []
    with ExitStack() as opened, pytest.MonkeyPatch.context() as whole:
        whole.setattr(segment_files, "_SHARE_BYTES", 1 << 30)
        for _ in range(count):
            client = opened.enter_context(full.connect())
            assert works(client)
            connection = connection_of(full, client)
            client.request(FETCH, 18, fetch_body((topic, 0, 0), **LARGE))
            eventually(lambda connection=connection: not connection._is_writable, "a full socket")
            clients.append((client, connection))
        whole.undo()
        yield clients


def held_bytes(full: Serving, connection: Connection) -> int:
    """Return the size of a connection's responses in the gateway's memory."""

    async def count() -> int:
        assert connection._transport is not None
        held = connection._transport.get_write_buffer_size()
        for piece in connection._outgoing._pieces if connection._outgoing is not None else ():
            if isinstance(piece, FileRecords):
                held += 0 if piece.content is None else len(piece.content)
            elif not callable(piece):
                held += len(piece)
        return held

    held: int = full.run(count())
    return held


def counted(full: Serving, topic: Topic) -> int:
    """Return the bytes of the topic that were counted as sent."""
    _, page = full.http("/metrics")
    wanted = f'topic="{topic.name}"'
    lines = [line for line in page.splitlines() if line.startswith("muster_fetch_bytes_total{") and wanted in line]
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines)


def test_together_they_take_no_more_than_the_limit_and_get_all_of_it_later(full: Serving, topic: Topic) -> None:
    with unread(full, topic, READERS) as readers:
        held = [held_bytes(full, each) for _, each in readers]
        assert sum(held) <= LIMIT_BYTES + READERS * HELD_BYTES
        assert full.gateway.response_memory.held_bytes <= LIMIT_BYTES
        assert works(full.client)
        for client, connection in readers:
            (found,) = client.response(FETCH, 18).responses
            records = found.partitions[0].records
            assert values(records) == [bytes([number]) * VALUE_BYTES for number in range(BATCHES)]
            assert works(client), "the connection goes on"
            eventually(lambda connection=connection: connection._outgoing is None, "nothing is left")
    eventually(lambda: full.gateway.response_memory.held_bytes == 0, "nothing is held")


def test_of_responses_that_are_in_no_file_the_one_not_taken_for_longest_ends(
    full: Serving, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Responses of other APIs, and records from another node, are in no file."""
    monkeypatch.setattr(segment_files, "SMALL_BYTES", 1 << 30)
    monkeypatch.setattr(segment_files, "MAX_NOW_BYTES", 1 << 30)
    memory = full.gateway.response_memory
    with full.connect() as first, full.connect() as second:
        for client in (first, second):
            assert works(client)
            client.request(FETCH, 18, fetch_body((topic, 0, 0), partition_max_bytes=6_000_000))
            held_bytes = eventually(lambda: memory.held_bytes, "a full socket")
            monkeypatch.setattr(memory, "_limit_bytes", held_bytes * 3 // 2)
        eventually(lambda: first.port not in {each.port for each in full.gateway.connections.values()}, "it is closed")
        with pytest.raises(ConnectionError):
            first.response(FETCH, 18)
        assert second.response(FETCH, 18)
        assert works(second)
        assert works(full.client)


class Reader:
    """Holds a response, and takes of it what a test says."""

    def __init__(self, memory: ResponseMemory, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.is_given_up = False
        memory.hold(self, size_bytes)

    def waiting_bytes(self) -> int:
        return self.size_bytes

    def give_back(self) -> None:
        self.is_given_up = True


def test_whose_client_takes_something_comes_last() -> None:
    memory = ResponseMemory(100)
    slow, stopped, last = Reader(memory, 40), Reader(memory, 40), Reader(memory, 20)
    assert [slow.is_given_up, stopped.is_given_up, last.is_given_up] == [False, False, False]
    slow.size_bytes = 39
    Reader(memory, 30)
    assert [slow.is_given_up, stopped.is_given_up, last.is_given_up] == [False, True, False]
    assert memory.held_bytes == 39 + 20 + 30
    alone = Reader(memory, 101)
    assert alone.is_given_up
    assert memory.held_bytes == 0


def test_a_segment_that_is_removed_meanwhile_is_sent_nevertheless(full: Serving, fresh: Callable[[str], str]) -> None:
    topic = full.create(fresh("t"), 1)
    for _ in range(BATCHES):
        produce(full.client, (topic, 0, client_batch(1, value=bytes(VALUE_BYTES))))
    with unread(full, topic) as [(client, _)]:
        for file in Path(full.gateway.storage).glob(f"logs/{topic.name}-0/*.log"):
            file.unlink()
        (found,) = client.response(FETCH, 18).responses
        assert len(found.partitions[0].records) > BATCHES * VALUE_BYTES


def test_records_are_counted_when_all_of_them_are_in_the_socket(full: Serving, topic: Topic) -> None:
    before = counted(full, topic)
    with unread(full, topic):
        assert counted(full, topic) == before
    assert works(full.client)
    assert counted(full, topic) == before, "a client that has closed its connection has no use for a part"
    with unread(full, topic) as [(client, _)]:
        (found,) = client.response(FETCH, 18).responses
        eventually(lambda: counted(full, topic) == before + len(found.partitions[0].records), "all are counted")


def test_a_response_that_waits_for_an_earlier_one_takes_no_memory(
    full: Serving, topic: Topic, fresh: Callable[[str], str]
) -> None:
    group = fresh("g")
    find(full.client, 4, group)
    with full.connect() as client:
        assert works(client)
        connection = connection_of(full, client)
        Member(client, group, version=3).request_join()  # is answered after group.initial.rebalance.delay.ms
        client.request(FETCH, 18, fetch_body((topic, 0, 0), **LARGE))
        reply = eventually(lambda: len(connection._requests) > 1 and connection._requests[1].response, "the response")
        assert sum(map(len, reply.parts)) > BATCHES * VALUE_BYTES
        in_files = [part for part in reply.parts if isinstance(part, FileRecords)]
        eventually(lambda: in_files and not any(part.content for part in in_files), "the memory is given back")


def test_others_that_wait_make_a_response_shorter(full: Serving, topic: Topic) -> None:
    [whole] = fetch(full.client, (topic, 0, 0), **LARGE)
    (file,) = Path(full.gateway.storage).glob(f"logs/{topic.name}-0/*.log")
    named = [(Place(str(file), 0, len(whole.records), 0, BATCHES),)] * 2
    one_bytes = len(whole.records) // BATCHES
    for limit_bytes, count in ((1, 1), (one_bytes, 1), (3 * one_bytes - 1, 2), (3 * one_bytes, 3)):
        for found in (segment_files.first_of_now(named, limit_bytes), segment_files._first_of(named, limit_bytes)):
            assert found is not None
            assert [[each.size_bytes for each in of_one] for of_one in found] == [[count * one_bytes], []]


def test_an_actor_of_another_node_sends_little_at_a_time(
    full: Serving, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "MAX_UNSENT_BYTES", VALUE_BYTES)
    unsent: list[int] = []
    send = Fetches._send

    def measured(self: Fetches, key: tuple[listener.Peer, int], *fetch: Any) -> None:
        unsent.append(key[0]._out.queued_bytes)
        send(self, key, *fetch)

    monkeypatch.setattr(Fetches, "_send", measured)
    owners = channels(full).values()
    for channel in owners:
        monkeypatch.setattr(channel, "is_local", False)
    with ExitStack() as stack:
        clients = [stack.enter_context(full.connect()) for _ in range(READERS)]
        for client in clients:
            client.request(FETCH, 18, fetch_body((topic, 0, 0), **LARGE))
        for client in clients:
            (found,) = client.response(FETCH, 18).responses
            assert values(found.partitions[0].records) == [b"\0" * VALUE_BYTES]
    assert len(unsent) == READERS
    assert max(unsent) <= VALUE_BYTES
