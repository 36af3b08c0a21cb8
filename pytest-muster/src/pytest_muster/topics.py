"""Creates a topic with a CreateTopics request of its own, so that no Kafka client must be installed.

Version 4, the last version that is not flexible: apache/kafka ``CreateTopicsRequest.json``,
``CreateTopicsResponse.json``.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping

_CREATE_TOPICS, _VERSION, _CORRELATION_ID = 19, 4, 1
_CLIENT_ID = "pytest-muster"
_DEFAULT_REPLICATION = -1


class TopicNotCreated(RuntimeError):
    """The cluster refused the topic, with Kafka's ``error_code``, or did not response (``error_code`` None)."""

    def __init__(self, text: str, error_code: int | None = None) -> None:
        super().__init__(text)
        self.error_code = error_code


def create_topic(bootstrap: str, name: str, partitions: int, config: Mapping[str, str], timeout_s: float) -> None:
    """Create a topic through the first gateway of ``bootstrap`` that accepts a connection. Raises TopicNotCreated."""
    request = _request(name, partitions, config, timeout_ms=int(timeout_s * 1000))
    failure: OSError | None = None
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        try:
            connection = socket.create_connection((host.strip("[]"), int(port)), timeout_s)
        except OSError as error:
            failure = error
            continue
        with connection:
            try:
                connection.sendall(request)
                error_code, message = _read(_receive(connection))
            except OSError as error:
                raise TopicNotCreated(f"{address} did not say whether topic {name} was created: {error}") from error
        if error_code:
            raise TopicNotCreated(f"topic {name}: {message or 'error'} (Kafka's error code {error_code})", error_code)
        return
    raise TopicNotCreated(f"topic {name}: no gateway listens at {bootstrap}") from failure


def _request(name: str, partitions: int, config: Mapping[str, str], timeout_ms: int) -> bytes:
    body = struct.pack(">hhi", _CREATE_TOPICS, _VERSION, _CORRELATION_ID) + _string(_CLIENT_ID)
    body += struct.pack(">i", 1) + _string(name) + struct.pack(">ihi", partitions, _DEFAULT_REPLICATION, 0)
    body += struct.pack(">i", len(config))
    for key, value in config.items():
        body += _string(key) + _string(str(value))
    body += struct.pack(">i?", timeout_ms, False)
    return struct.pack(">i", len(body)) + body


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _receive(connection: socket.socket) -> bytes:
    (length,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, length)


def _exactly(connection: socket.socket, length: int) -> bytes:
    read = b""
    while len(read) < length:
        part = connection.recv(length - len(read))
        if not part:
            raise ConnectionResetError("the connection was closed")
        read += part
    return read


def _read(response: bytes) -> tuple[int, str | None]:
    """Error code and message of the one topic in a response."""
    at = 12  # correlation id, throttle time, number of topics
    (length,) = struct.unpack_from(">h", response, at)
    at += 2 + length
    error_code, length = struct.unpack_from(">hh", response, at)
    at += 4
    return error_code, None if length < 0 else response[at : at + length].decode()
