"""The client-to-group mapping in ZooKeeper: names of nodes and their contents.

There is one node per registration, ``/client_group_id/<host>/<client id>/<group>:<member>``, whose data holds
everything that the group's coordinator reported. KoP's flat node, ``/client_group_id/<host>-<client id>`` with the
group id as data, exists beside it only if a single group is a candidate for that host and client id.

Segments are percent-encoded, to make one valid node of any client id: all but RFC 3986's unreserved characters, as
UTF-8. Special cases start with a ``%`` sequence that no encoding produces: ``%~`` is null, ``%.`` the empty string,
``%h`` ends a segment that was truncated, and is followed by a hash.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from hashlib import blake2b
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeVar
from urllib.parse import quote, unquote_to_bytes

from muster.placement.layout import CLIENT_GROUP_ID, Malformed
from muster.placement.mapping.registration import Kind, Registration

_T = TypeVar("_T")

MAX_SEGMENT = 240
"""Maximum characters of an encoded name; a longer one is truncated and hashed, and cannot be decoded."""
_NULL = "%~"
_EMPTY = "%."
_HASHED = "%h"
_BELOW_ROOT = f"{CLIENT_GROUP_ID}/"
_DOTS = {".": "%2E", "..": "%2E%2E"}
_BAD_ESCAPE = re.compile(r"%(?![0-9A-F]{2})")
_is_plain = re.compile(rf"[A-Za-z0-9_~-][A-Za-z0-9._~-]{{0,{MAX_SEGMENT - 1}}}").fullmatch
"""Whether a text is its own encoding. It may be one that begins with a dot, too; that is left to the long way."""
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Undecodable(ValueError):
    """A segment that no text is encoded to, or that was hashed."""


def canonical_host(peer_address: str) -> str:
    """Return the canonical text of an IP address, which gives each client one name.

    Accepts the formats of sockets, logs and Kafka: a port, brackets, a zone id or a leading slash are dropped. IPv6 is
    formatted as in RFC 5952, IPv4-mapped IPv6 as IPv4. Raises ValueError if it is not an IP address.
    """
    text = peer_address.removeprefix("/")
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    address = ip_address(text.partition("%")[0])
    return str(_folded(address))


def host_text(host: str) -> str:
    """Return the canonical text of a host, as all of Muster shows it; what is not an IP address stays as it is."""
    try:
        return canonical_host(host)
    except ValueError:
        return host


def _folded(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def encode_segment(text: str | None) -> str:
    """Encode a string as (part of) a node name; never empty, never with ``/`` or ``:``."""
    if text is None:
        return _NULL
    if _is_plain(text):
        return text
    encoded = _DOTS.get(text) or quote(text.encode("utf-8", "surrogatepass"), safe="") or _EMPTY
    if len(encoded) <= MAX_SEGMENT:
        return encoded
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    kept = encoded[: MAX_SEGMENT - len(_HASHED) - len(digest)]
    whole = kept[: kept.rindex("%")] if "%" in kept[-2:] else kept
    return f"{whole}{_HASHED}{digest}"


def decode_segment(segment: str) -> str | None:
    """Return the encoded text. Raises Undecodable."""
    if segment == _NULL:
        return None
    if segment == _EMPTY:
        return ""
    if not segment or _BAD_ESCAPE.search(segment):
        raise Undecodable(segment)
    try:
        text = unquote_to_bytes(segment).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise Undecodable(segment) from error
    if encode_segment(text) != segment and encode_host(text) != segment:
        raise Undecodable(segment)
    return text


def encode_host(host: str) -> str:
    """Encode a host as a node name, without ``-``, which separates host and client id in KoP's flat nodes."""
    return encode_segment(host).replace("-", "%2D")


def client_path(host: str, client_id: str | None) -> str:
    """Return the node whose children are the registrations of that client."""
    return f"{CLIENT_GROUP_ID}/{encode_host(host)}/{encode_segment(client_id)}"


def registration_path(registration: Registration) -> str:
    """Return the node of that registration."""
    name = f"{encode_segment(registration.group)}:{encode_segment(registration.member_id)}"
    return f"{client_path(registration.host, registration.client_id)}/{name}"


def kop_path(host: str, client_id: str | None) -> str:
    """KoP's flat node for that client. The same name as KoP's if the client id needs no encoding."""
    return f"{CLIENT_GROUP_ID}/{encode_host(host)}-{encode_segment(client_id)}"


def kop_data(group: str) -> bytes:
    """Return the content of KoP's node: the group id, UTF-8."""
    return group.encode("utf-8", "surrogatepass")


def is_registration_path(path: str) -> bool:
    """Whether the path is three levels under the root, like registrations."""
    return path.count("/") == 4 and path.startswith(_BELOW_ROOT)


def is_kop_path(path: str) -> bool:
    """Whether the path is one of KoP's flat nodes."""
    return path.count("/") == 2 and path.startswith(_BELOW_ROOT) and "-" in path


def group_of_path(path: str) -> str | None:
    """Return the group in the name of a registration's node; None if the name has no group, or a hashed one."""
    group, colon, _ = path.rpartition("/")[2].partition(":")
    return _text_of(group) if colon else None


def member_of_path(path: str) -> str | None:
    """Like :func:`group_of_path`, for the member."""
    _, colon, member = path.rpartition("/")[2].partition(":")
    return _text_of(member) if colon else None


def _text_of(segment: str) -> str | None:
    try:
        return decode_segment(segment)
    except Undecodable:
        return None


def encode_registration(registration: Registration) -> bytes:
    """Return the data of its node: JSON, equal bytes for equal registrations."""
    fields = {
        "version": 1,
        "group": registration.group,
        "member": registration.member_id,
        "kind": registration.kind.value,
        "client_id": registration.client_id,
        "host": registration.host,
        "generation": registration.generation,
        "partitions": _by_topic(registration.partitions),
        "offsets_partition": registration.offsets_partition,
        "epoch": registration.epoch,
        "sequence": registration.sequence,
        "principal": registration.principal,
    }
    return _encode(fields).encode()


def decode_registration(path: str, data: bytes) -> Registration:
    """Return the registration of a node. Raises Malformed if the data are no registration, or one of another node."""
    try:
        fields = json.loads(data)
        registration = Registration(
            group=_is(fields["group"], str),
            member_id=_is(fields["member"], str),
            kind=Kind(fields["kind"]),
            client_id=None if fields["client_id"] is None else _is(fields["client_id"], str),
            host=_is(fields["host"], str),
            generation=_is(fields["generation"], int),
            partitions=_pairs(fields["partitions"]),
            offsets_partition=_is(fields["offsets_partition"], int),
            epoch=_is(fields["epoch"], int),
            sequence=_is(fields["sequence"], int),
            principal=None if fields.get("principal") is None else _is(fields["principal"], str),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Malformed(f"{path} holds no registration: {error!r}") from error
    if registration_path(registration) != path:
        raise Malformed(f"{path} holds the registration of {registration_path(registration)}")
    return registration


def _by_topic(partitions: Iterable[tuple[str, int]] | None) -> dict[str, list[int]] | None:
    if partitions is None:
        return None
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return by_topic


def _pairs(by_topic: dict[str, list[int]] | None) -> frozenset[tuple[str, int]] | None:
    if by_topic is None:
        return None
    return frozenset((topic, _is(partition, int)) for topic, some in by_topic.items() for partition in some)


def _is(value: object, kind: type[_T]) -> _T:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
