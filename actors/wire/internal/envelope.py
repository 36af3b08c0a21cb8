"""The messages between gateways and actors on the internal socket.

Each message is one frame whose first byte is its :class:`Kind`. A request carries the client's own Kafka frame
unchanged, and its origin; the response is the Kafka frame as it is sent to the client. (Kafka's own solution for the
same need is the Envelope request, KIP-590.) A connection starts with a mutual challenge: each side proves that it knows
the cluster's secret, which is sent through Ray only.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from collections.abc import Iterable
from enum import Enum, IntEnum
from functools import lru_cache
from typing import Any

import msgspec

from muster.placement.client import Context
from muster.placement.mapping.registration import Position, Registration, RegistrationUpdate, SimpleCommit, Withdrawal

NONCE_BYTES = 16
LIMIT_BYTES = 512 << 20
"""Largest internal frame: well above socket.request.max.bytes and fetch.max.bytes."""
QUERY_LIMIT_BYTES = 4 << 20
"""Largest JSON of a QUERY."""
RESPONSE_LIMIT_BYTES = 64 << 20
"""Largest JSON of the response to a QUERY."""


class Kind(IntEnum):
    CHALLENGE = 0
    """Server's nonce; the client's proof and nonce; the server's proof."""
    REQUEST = 1
    """token u32, context length u16, context, Kafka request frame."""
    RESPONSE = 2
    """token u32, Kafka response frame; JSON in response to a QUERY."""
    CANCEL = 3
    """token u32: the response is no longer needed; none is sent."""
    REGISTRATION_UPDATES = 4
    """MessagePack: an offsets partition's updates about its clients; sent to every gateway without a request."""
    QUERY = 5
    """token u32, JSON object ``{"ask": NAME, ...}``: what no Kafka API provides. The RESPONSE is JSON, too."""
    LEASE = 6
    """token u32, lease of the group u32, lease of the member u32, Kafka response frame: a RESPONSE to a heartbeat, and
    the gateway may answer the member's next ones."""
    REVOKED = 7
    """lease of a group u32: it has ended, and those of the group's members with it. The gateway sends it back once it
    has reported what it has seen."""
    SEEN = 8
    """(lease of a member u32, age in ms u16)*: heartbeats that the gateway has answered."""
    PING = 9
    """The gateway's time, ms u64. The actor sends it back at once: its leases were valid at that time."""
    FETCH = 10
    """token u32, a fetch: see :mod:`muster.actors.wire.internal.fetch`."""
    FETCHED = 11
    """token u32, what was fetched, or where it is: the response to a FETCH."""
    PRODUCE = 12
    """token u32, batches: see :mod:`muster.actors.wire.internal.produce`."""
    PRODUCED = 13
    """token u32, what became of them: the response to a PRODUCE."""
    MARKERS = 14
    """token u32, ends of transactions: see :mod:`muster.actors.wire.internal.markers`."""
    MARKED = 15
    """token u32, what became of them: the response to a MARKERS."""
    VERIFY = 16
    """token u32, partitions of a transaction: see :mod:`muster.actors.wire.internal.verification`."""
    VERIFIED = 17
    """token u32, an error code for each of them: the response to a VERIFY."""
    EPOCHS = 18
    """Leader epochs of the actor's logs: see :mod:`muster.actors.wire.internal.leader_epochs`."""


class Role(Enum):
    """The sides of a connection, each with a proof of its own."""

    LISTENER = b"actor"
    GATEWAY = b"gateway"
    ACTOR = b"another actor"
    """An actor that connects to another one: it has no clients, and gets nothing that it has not requested."""


REQUEST_HEAD = struct.Struct(">BIH")
"""Start of a REQUEST: its kind, the token, and the length of the context."""
TOKEN_HEAD = struct.Struct(">BI")
"""Start of a message with a token: its kind and the token; all of a CANCEL and a REVOKED."""
_LEASE = struct.Struct(">BIII")
_PING = struct.Struct(">BQ")
_SEEN = struct.Struct(">IH")
_MAX_AGE_MS = (1 << 16) - 1

SeenLease = tuple[int, int]
"""The lease of a member, and how long ago its heartbeat was answered, in ms."""


pack = msgspec.msgpack.Encoder(uuid_format="bytes").encode
"""Return MessagePack of what is sent seldom; each kind of message has a decoder, which checks the types. What each
request brings has a struct."""


class InvalidQuery(ValueError):
    """A QUERY that is malformed; the text is sent back as its response."""


class Unauthenticated(ConnectionError):
    """The peer does not know the cluster's secret."""


def proof(secret: bytes, role: bytes, nonce: bytes) -> bytes:
    """Return the response of the side with that role to a nonce."""
    return hmac.digest(secret, role + nonce, hashlib.sha256)


def same_proof(left: bytes, right: bytes) -> bool:
    return hmac.compare_digest(left, right)


def read_request(message: bytes) -> tuple[int, Context, bytes]:
    """Token, context and Kafka frame of a REQUEST: after its head, the context and the frame."""
    _, token, size = REQUEST_HEAD.unpack_from(message)
    start = REQUEST_HEAD.size
    return token, _context(message[start : start + size]), message[start + size :]


def token_head(kind: Kind, token: int) -> bytes:
    """Return the bytes before the rest of a message that begins with a token; all of a CANCEL and a REVOKED."""
    return TOKEN_HEAD.pack(kind, token)


def read_token(message: bytes) -> tuple[int, bytes]:
    """Token and the rest of such a message. Raises ValueError if it is cut off."""
    if len(message) < TOKEN_HEAD.size:
        raise ValueError(f"a message of {len(message)} bytes has no token")
    return TOKEN_HEAD.unpack_from(message)[1], message[TOKEN_HEAD.size :]


def lease_head(token: int, group: int, member: int) -> bytes:
    """Return the bytes before the Kafka frame in a LEASE."""
    return _LEASE.pack(Kind.LEASE, token, group, member)


def read_lease(message: bytes) -> tuple[int, int, int, bytes]:
    """Token, lease of the group, lease of the member, and Kafka frame of a LEASE."""
    _, token, group, member = _LEASE.unpack_from(message)
    return token, group, member, message[_LEASE.size :]


def write_seen(seen: Iterable[SeenLease]) -> bytes:
    """Return a SEEN message."""
    return b"".join((bytes([Kind.SEEN]), *(_SEEN.pack(lease, min(age_ms, _MAX_AGE_MS)) for lease, age_ms in seen)))


def read_seen(message: bytes) -> list[SeenLease]:
    """Return the leases of a SEEN message. Raises ValueError if it is cut off."""
    try:
        return [(lease, age_ms) for lease, age_ms in _SEEN.iter_unpack(memoryview(message)[1:])]
    except struct.error as error:
        raise ValueError(f"a message about heartbeats: {error}") from error


def write_ping(now_ms: int) -> bytes:
    """Return a PING."""
    return _PING.pack(Kind.PING, now_ms)


def read_ping(message: bytes) -> int:
    """Return the gateway's time, in ms, in a PING. Raises ValueError if it is cut off."""
    try:
        return int(_PING.unpack(message)[1])
    except struct.error as error:
        raise ValueError(f"a ping: {error}") from error


def read_query(data: bytes) -> dict[str, Any]:
    """Return the JSON object of a QUERY. Raises InvalidQuery if it is too long, not JSON, or not an object."""
    if len(data) > QUERY_LIMIT_BYTES:
        raise InvalidQuery(f"unknown query: {len(data)} bytes, the limit is {QUERY_LIMIT_BYTES}")
    try:
        query = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidQuery("unknown query: not JSON") from error
    if not isinstance(query, dict):
        raise InvalidQuery("unknown query: not a JSON object")
    return query


def write_query(query: dict[str, Any]) -> bytes:
    """Return the JSON of a QUERY. Raises TypeError or ValueError if JSON cannot represent it, or it is too long."""
    data = json.dumps(query, allow_nan=False).encode()
    if len(data) > QUERY_LIMIT_BYTES:
        raise ValueError(f"a query of {len(data)} bytes, the limit is {QUERY_LIMIT_BYTES}")
    return data


def write_response(response: dict[str, Any]) -> bytes:
    """Return the JSON response to a QUERY.

    Raises TypeError or ValueError if JSON cannot represent it, or it is too long.
    """
    data = json.dumps(response, allow_nan=False).encode()
    if len(data) > RESPONSE_LIMIT_BYTES:
        raise ValueError(f"a response of {len(data)} bytes, the limit is {RESPONSE_LIMIT_BYTES}")
    return data


def read_response(data: bytes) -> dict[str, Any]:
    """Read the response to a QUERY. Raises ValueError if it is not a JSON object."""
    response = json.loads(data)
    if not isinstance(response, dict):
        raise ValueError("a response that is no JSON object")
    return response


def write_context(host: str, connection: str, principal: str) -> bytes:
    """Return the part of a Context that is the same for all requests of a connection."""
    return json.dumps([host, connection, principal]).encode()


@lru_cache(maxsize=8192)
def _context(data: bytes) -> Context:
    host, connection, principal = json.loads(data)
    return Context(client_id=None, host=host, connection=connection, principal=principal)


class _Update(msgspec.Struct, omit_defaults=True):
    """One of these, by its type: a union of named tuples cannot be decoded."""

    registration: Registration | None = None
    withdrawal: Withdrawal | None = None
    position: Position | None = None
    commit: SimpleCommit | None = None

    @classmethod
    def of(cls, update: RegistrationUpdate) -> _Update:
        match update:
            case Registration():
                return cls(registration=update)
            case Withdrawal():
                return cls(withdrawal=update)
            case Position():
                return cls(position=update)
            case SimpleCommit():
                return cls(commit=update)


class _Updates(msgspec.Struct):
    partition: int
    epoch: int
    updates: list[_Update]
    snapshot: bool


_UPDATES = msgspec.msgpack.Decoder(_Updates)


def write_updates(partition: int, epoch: int, updates: tuple[RegistrationUpdate, ...], *, snapshot: bool) -> bytes:
    """Return a REGISTRATION_UPDATES message. A snapshot contains every registration of the partition."""
    found = _Updates(partition, epoch, [*map(_Update.of, updates)], snapshot)
    return bytes([Kind.REGISTRATION_UPDATES]) + pack(found)


def read_updates(message: bytes) -> tuple[int, int, tuple[RegistrationUpdate, ...], bool]:
    """Partition, epoch, updates and whether they are a snapshot. Raises ValueError if it is none."""
    found = _UPDATES.decode(memoryview(message)[1:])
    named = (each.registration or each.withdrawal or each.position or each.commit for each in found.updates)
    return found.partition, found.epoch, tuple(update for update in named if update is not None), found.snapshot
