"""TCP streams to Kafka requests and responses, and what Fetch responses carried to whom."""

from __future__ import annotations

import struct
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import Header
from tests.attribution.captured.streams import Connection

FETCH, METADATA = 1, 3
_RACK_SINCE, _TOPIC_IDS_SINCE = 11, 13
_METADATA_TOPIC_IDS_SINCE = 10
_BATCH = struct.Struct(">8xi45xi")
"""Length and number of records of a batch (magic 2); the length counts from behind itself."""
_BEFORE_LENGTH_BYTES = 12


class Unreadable(ValueError):
    """The capture does not show all of a connection, or something that no Kafka client sends."""


class Exchange(NamedTuple):
    """A request and its response, without their sizes."""

    header: Header
    request: bytes
    response: bytes

    @property
    def body(self) -> Any:
        return codec.decode_request(self.header, self.request)

    @property
    def result(self) -> Any:
        api = self.header.api_key, self.header.api_version
        return codec.decode_response(*api, self.response)[1]


class Carried(NamedTuple):
    """Records of one partition in a Fetch response."""

    rack: str | None
    """Rack of the client; None if it sent a version of Fetch that has none."""
    topic: str
    partition: int
    size_bytes: int
    """Size of whole batches."""
    messages: int


def split(stream: bytes | bytearray) -> tuple[list[bytes], int]:
    """Return the frames, and how many bytes of a further one there are."""
    frames, at = [], 0
    while at + 4 <= len(stream):
        end = at + 4 + int.from_bytes(stream[at : at + 4], "big")
        if end > len(stream):
            break
        frames.append(bytes(stream[at + 4 : end]))
        at = end
    return frames, len(stream) - at


def exchanges(connection: Connection) -> list[Exchange]:
    """All requests that were answered, in the order of the responses. Raises Unreadable.

    A request may be cut off or without a response, when a client has closed; a response may not.
    """
    if not connection.is_whole:
        raise Unreadable(f"the capture lacks a part of the connection of {connection.client}")
    requests, _ = split(connection.from_client.data)
    responses, cut_bytes = split(connection.from_gateway.data)
    if cut_bytes:
        raise Unreadable(f"the last response to {connection.client} was cut off after {cut_bytes} bytes")
    waiting: defaultdict[int, deque[tuple[Header, bytes]]] = defaultdict(deque)
    for request in requests:
        header = codec.decode_header(request)
        waiting[header.correlation_id].append((header, request))
    found = []
    for response in responses:
        requested = waiting[int.from_bytes(response[:4], "big", signed=True)]
        if not requested:
            raise Unreadable(f"a response to {connection.client} is of no request")
        found.append(Exchange(*requested.popleft(), response))
    return found


def topic_names(of_all: Iterable[Exchange]) -> dict[object, str]:
    """Topic id -> name, as Metadata responses say."""
    return {
        topic.topic_id: topic.name
        for exchange in of_all
        if exchange.header.api_key == METADATA and exchange.header.api_version >= _METADATA_TOPIC_IDS_SINCE
        for topic in exchange.result.topics
        if topic.name is not None
    }


def carried(of_all: Iterable[Exchange], names: Mapping[object, str]) -> Iterator[Carried]:
    """Yield the content of the Fetch responses among them. Raises KeyError for a topic without a name."""
    for exchange in of_all:
        version = exchange.header.api_version
        if exchange.header.api_key != FETCH:
            continue
        rack = exchange.body.rack_id if version >= _RACK_SINCE else None
        for topic in exchange.result.responses:
            name = names[topic.topic_id] if version >= _TOPIC_IDS_SINCE else topic.topic
            for partition in topic.partitions:
                size_bytes, messages = measure(partition.records or b"")
                if size_bytes:
                    yield Carried(rack, name, partition.partition_index, size_bytes, messages)


def measure(records: bytes) -> tuple[int, int]:
    """Bytes and records of the whole batches."""
    at = messages = 0
    while at + _BATCH.size <= len(records):
        length, count = _BATCH.unpack_from(records, at)
        if at + _BEFORE_LENGTH_BYTES + length > len(records):
            break
        at += _BEFORE_LENGTH_BYTES + length
        messages += count
    return at, messages
