"""Kafka requests and responses, between bytes and Python.

A request is read as an entity with the fields of the version that the client sent
(:mod:`muster.actors.wire.kafka.reader`); its handler reads fields that only newer versions have with :func:`field`. A
response is written from nested dicts or dataclasses that may have the fields of *all* versions: those of the requested
version are used (``muster.actors.wire.kafka.writer``). A handler therefore builds its response once, and versions
differ in one place.
Durations and timestamps are plain milliseconds.

Source of the schemas: kio, generated from Apache Kafka's message definitions.
"""

from __future__ import annotations

import struct
import typing
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map

from muster.actors.wire.kafka.framing import Buffer
from muster.actors.wire.kafka.into import Into
from muster.actors.wire.kafka.lengths import MAX_ELEMENTS, UNREADABLE, TooManyElements, pass_over_tags, why
from muster.actors.wire.kafka.reader import reader, splitter, step_reader
from muster.actors.wire.kafka.schema import as_varint, nested_entity
from muster.actors.wire.kafka.steps import Steps
from muster.actors.wire.kafka.writer import Body, writer

API_VERSIONS = 18
_ANY_NUMBER = 1 << 62
_API_BYTES, _CLIENT_ID_AT = 4, 10
_api = struct.Struct(">hh").unpack_from
_caller = struct.Struct(">ih").unpack_from
"""Correlation id, and the length of the client id."""


class UndecodableRequest(ValueError):
    """The bytes are not a request of that API and version. The connection cannot continue."""


class UndecodableResponse(ValueError):
    """The bytes are not a response of that API and version."""


class UnknownApi(LookupError):
    """kio has no API with that key, or not this version of it."""


class Header(NamedTuple):
    """The start of every request (Kafka protocol guide, request header v1 and v2)."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    end: int
    """Index of the first byte of the body."""

    @property
    def log_fields(self) -> dict[str, object]:
        """Fields of their own in log lines about this request."""
        return {"api": self.api_key, "correlation_id": self.correlation_id, "client_id": self.client_id}


def api_name(api_key: int) -> str:
    """Return the API's name as in the protocol guide, such as ``JoinGroup``.

    Raises KeyError for a key unknown to kio.
    """
    return "".join(word.capitalize() for word in api_key_map[api_key].split("_"))


@cache
def versions_of(api_key: int) -> range:
    """Versions of the API that kio has. Raises UnknownApi for a key that kio does not know."""
    try:
        versions = schema_name_map[api_key_map[api_key]]
    except KeyError:
        raise UnknownApi(f"api key {api_key}") from None
    return range(int(min(versions)), int(max(versions)) + 1)


@cache
def request_type(api_key: int, version: int) -> Any:
    """Entity class of that request. Raises UnknownApi if kio has none."""
    return _load(load_request_schema, api_key, version)


@cache
def response_type(api_key: int, version: int) -> Any:
    """Entity class of that response. Raises UnknownApi if kio has none."""
    return _load(load_response_schema, api_key, version)


def _load(loader: Callable[[int, int], Any], api_key: int, version: int) -> Any:
    try:
        return loader(api_key, version)
    except (LookupError, RuntimeError) as error:  # kio's KioIndexError is a RuntimeError
        raise UnknownApi(f"api key {api_key} version {version}") from error


def load(api_key: int, version: int) -> None:
    """Load the schemas of one version of an API, which the first to use them would have to wait for: up to 12 ms."""
    reader(request_type(api_key, version))
    writer(response_type(api_key, version))


def decode_header(frame: bytes) -> Header:
    """Read the request header of a frame (without its size prefix).

    Its tagged fields are skipped, whatever they are (KIP-482). An ApiVersions request of a version that does not exist
    is read with header v1 (KIP-511), to make a response possible. Raises UnknownApi or UndecodableRequest for
    everything else that cannot be read.
    """
    if len(frame) < 8:
        raise UndecodableRequest(f"a frame of {len(frame)} bytes has no request header")
    api_key, version = _api(frame)
    is_flexible = _has_flexible_header(api_key, version)
    try:
        correlation_id, length = _caller(frame, _API_BYTES)
        end = _CLIENT_ID_AT
        client_id = None
        if length >= 0:
            end += length
            client_id = frame[_CLIENT_ID_AT:end].decode()
        elif length != -1:
            raise ValueError(f"a client id of {length} bytes")
        if is_flexible:
            end += 1
            if tags := frame[end - 1]:
                end, _ = pass_over_tags(frame, end, tags, MAX_ELEMENTS)
        if end > len(frame):
            raise IndexError(end)
    except UNREADABLE as error:
        raise UndecodableRequest(f"request header of api key {api_key}: {why(error)}") from error
    return Header(api_key, version, correlation_id, client_id, end)


@cache
def _has_flexible_header(api_key: int, version: int) -> bool:
    """Return whether the header is v2, which is v1 plus tagged fields. Raises UnknownApi."""
    try:
        return bool(request_type(api_key, version).__header_schema__.__flexible__)
    except UnknownApi:
        if api_key != API_VERSIONS:
            raise
        return False


def decode_request(header: Header, frame: bytes, max_elements: int | None = None, into: Into | None = None) -> Any:
    """Return the body of a client's request as an entity of the version in the header, or in another type.

    Raises UndecodableRequest.

    Raises TooManyElements if there are more than ``max_elements`` in its arrays, where that is given. Bytes behind the
    body are ignored, as in Kafka: librdkafka sends some (confluentinc/librdkafka#5049).
    """
    kind = request_type(header.api_key, header.api_version)
    try:
        return reader(kind, into)(frame, header.end, MAX_ELEMENTS if max_elements is None else max_elements)[0]
    except UNREADABLE as error:
        if max_elements is not None and isinstance(error, TooManyElements):
            raise
        raise _undecodable(kind, error) from error


def decode_request_in_steps(header: Header, frame: bytes) -> Steps[Any]:
    """:func:`decode_request`, in small steps."""
    kind = request_type(header.api_key, header.api_version)
    try:
        entity, _ = yield from step_reader(kind)(frame, header.end, MAX_ELEMENTS)
    except UNREADABLE as error:
        raise _undecodable(kind, error) from error
    return entity


def _undecodable(kind: Any, error: Exception) -> UndecodableRequest:
    return UndecodableRequest(f"{kind.__name__} v{kind.__version__}: {why(error)}")


def field(entity: Any, name: str, default: Any) -> Any:
    """Return the value of a field that only some versions of the entity have."""
    return getattr(entity, name, default)


def encode_request(api_key: int, version: int, correlation_id: int, client_id: str | None, body: Body) -> bytes:
    """Return a whole request frame without its size prefix. Raises the errors of ``writer.writer``."""
    kind = request_type(api_key, version)
    parts: list[Buffer] = []
    header = {
        "request_api_key": api_key,
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    writer(kind.__header_schema__)(header, parts.append)
    writer(kind)(body, parts.append)
    return b"".join(parts)


def encode_response(api_key: int, version: int, correlation_id: int, body: Body) -> bytes:
    """Return a whole response frame without its size prefix. Raises the errors of ``writer.writer``."""
    return b"".join(encode_response_parts(api_key, version, correlation_id, body))


def encode_response_parts(api_key: int, version: int, correlation_id: int, body: Body) -> list[Buffer]:
    """:func:`encode_response` in parts: records are not copied."""
    parts = response_head(api_key, version, correlation_id)
    writer(response_type(api_key, version))(body, parts.append)
    return parts


def response_head(api_key: int, version: int, correlation_id: int) -> list[Buffer]:
    """Return the bytes before the body of a response."""
    parts: list[Buffer] = [correlation_id.to_bytes(4, "big", signed=True)]
    if response_type(api_key, version).__header_schema__.__flexible__:
        parts.append(b"\0")  # no tagged fields
    return parts


def decode_response(api_key: int, version: int, frame: bytes) -> tuple[int, Any]:
    """Correlation id and entity of a response frame of that version. Raises UndecodableResponse."""
    kind = response_type(api_key, version)
    try:
        entity, _ = reader(kind)(frame, _response_start(kind, frame), _ANY_NUMBER)
    except UNREADABLE as error:
        raise UndecodableResponse(f"{kind.__name__} v{version}: {why(error)}") from error
    return int.from_bytes(frame[:4], "big", signed=True), entity


def _response_start(kind: Any, frame: bytes) -> int:
    """Index of the first byte of the body. Raises UNREADABLE."""
    if len(frame) < 4:
        raise ValueError(f"a frame of {len(frame)} bytes has no response header")
    if not kind.__header_schema__.__flexible__:
        return 4
    return pass_over_tags(frame, 5, frame[4], MAX_ELEMENTS)[0]


def split_response(api_key: int, version: int, frame: bytes) -> list[bytes]:
    """Return the elements of the array that a response frame ends with, as bytes, for :func:`join_response`.

    The frame must come from Muster itself. Raises UNREADABLE.
    """
    kind = response_type(api_key, version)
    return _elements(kind, frame, _response_start(kind, frame))


def _elements(kind: Any, frame: bytes, at: int) -> list[bytes]:
    return [*splitter(kind)(frame, at, _ANY_NUMBER)[0]]


def _array_head(kind: Any, count: int) -> bytes:
    """Return the bytes before the elements of an array in an entity of class ``kind``."""
    return as_varint(count + 1) if kind.__flexible__ else count.to_bytes(4, "big")


def join_response(api_key: int, version: int, correlation_id: int, body: Body, elements: Sequence[bytes]) -> bytes:
    """Return a whole response frame that ends with an array of these elements; in ``body`` that array is empty.

    Merging the responses of many actors this way costs a tenth of reading and writing them.
    """
    kind = response_type(api_key, version)
    frame = encode_response(api_key, version, correlation_id, body)
    tail = b"\0" if kind.__flexible__ else b""
    head = frame[: len(frame) - len(_array_head(kind, 0)) - len(tail)]
    return b"".join((head, _array_head(kind, len(elements)), *elements, tail))


@cache
def _element_type(api_key: int, version: int, name: str) -> Any:
    """Return the entity class of the elements of the response's array ``name``."""
    return nested_entity(typing.get_type_hints(response_type(api_key, version))[name])[0]


def element(api_key: int, version: int, name: str, body: Body) -> bytes:
    """One element of the response's array ``name``, in the format that :func:`split_response` returns."""
    parts: list[Buffer] = []
    writer(_element_type(api_key, version, name))(body, parts.append)
    return b"".join(parts)


def filtered(api_key: int, version: int, name: str, part: bytes, keep: Callable[[Any], bool]) -> bytes:
    """Return an element of the response's array ``name`` with only the kept elements of the array that it ends with."""
    kind = _element_type(api_key, version, name)
    last = list(typing.get_type_hints(kind).values())[-1]
    inner = reader(nested_entity(last)[0])
    elements = _elements(kind, part, 0)
    kept = [each for each in elements if keep(inner(each, 0, _ANY_NUMBER)[0])]
    tail = b"\0" if kind.__flexible__ else b""
    head = part[: len(part) - len(tail) - sum(map(len, elements)) - len(_array_head(kind, len(elements)))]
    return b"".join((head, _array_head(kind, len(kept)), *kept, tail))


__all__ = [
    "API_VERSIONS",
    "Body",
    "ErrorCode",
    "Header",
    "TooManyElements",
    "UndecodableRequest",
    "UndecodableResponse",
    "UnknownApi",
    "api_name",
    "decode_header",
    "decode_request",
    "decode_request_in_steps",
    "decode_response",
    "element",
    "encode_request",
    "encode_response",
    "encode_response_parts",
    "field",
    "filtered",
    "join_response",
    "load",
    "request_type",
    "response_type",
    "split_response",
    "versions_of",
]
