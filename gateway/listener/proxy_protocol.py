"""The PROXY protocol, version 2: the client's address, as sent by a load balancer in front of the gateway.

HAProxy's specification (proxy-protocol.txt, section 2.2): a binary header before the first byte of the client. TCP
over IPv4 and IPv6 give the client's address; LOCAL (the balancer's own health check) and UNSPEC leave the
connection's own; TLVs are skipped. Version 1, which is text, is refused: no balancer supports only that. Any client
that can connect can claim any address, so such a listener is for the balancers alone.
"""

from __future__ import annotations

import struct
from ipaddress import ip_address
from typing import NamedTuple

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
VERSION_1 = b"PROXY "
MAX_BYTES = 4096
"""The longest header that is read. 52 bytes are addresses, the rest TLVs; the format would allow 64 KiB."""

_FIXED = struct.Struct("!12sBBH")
_VERSION = 2
_LOCAL, _PROXY = 0, 1
_UNSPEC, _TCP4, _TCP6 = 0x00, 0x11, 0x21
_ADDRESSES = {_TCP4: struct.Struct("!4s4sHH"), _TCP6: struct.Struct("!16s16sHH")}


class BadHeader(ValueError):
    """The input is no header, or one that is not understood; the specification says to drop the connection."""


class Source(NamedTuple):
    """The client, as the balancer saw it."""

    host: str
    """An IP address as text."""
    port: int


class Header(NamedTuple):
    source: Source | None
    """None: the address of the connection itself."""
    size_bytes: int
    """The bytes after these belong to the client."""


def read_header(data: bytes) -> Header | None:
    """Return the header at the start of ``data``; None while it is incomplete.

    Raises BadHeader as soon as it is invalid.
    """
    if not SIGNATURE.startswith(data[: len(SIGNATURE)]):
        raise BadHeader(_what_else(data))
    if len(data) < _FIXED.size:
        return None
    _, version_and_command, family, length = _FIXED.unpack_from(data)
    version, command = version_and_command >> 4, version_and_command & 0xF
    if version != _VERSION:
        raise BadHeader(f"version {version} of the PROXY protocol, but only {_VERSION} is read")
    size_bytes = _FIXED.size + length
    if size_bytes > MAX_BYTES:
        raise BadHeader(f"a PROXY header of {size_bytes} bytes is announced, the limit is {MAX_BYTES}")
    if command not in (_LOCAL, _PROXY):
        raise BadHeader(f"command {command} of the PROXY protocol is not known")
    addresses = _ADDRESSES.get(family)
    if command == _PROXY and family != _UNSPEC and addresses is None:
        raise BadHeader(f"address family and protocol {family:#04x} in the PROXY header: only TCP is understood")
    layout = addresses if command == _PROXY else None
    if layout is not None and length < layout.size:
        raise BadHeader(f"a PROXY header with {length} bytes of addresses, {layout.size} are needed")
    if len(data) < size_bytes:
        return None
    return Header(None if layout is None else _source(layout, data), size_bytes)


def write_header(source: Source, destination: Source) -> bytes:
    """Return a PROXY header without TLVs, as a balancer sends it. Raises ValueError for addresses of two families."""
    hosts = [ip_address(source.host).packed, ip_address(destination.host).packed]
    family = {4: _TCP4, 16: _TCP6}[len(hosts[0])]
    if len(hosts[0]) != len(hosts[1]):
        raise ValueError(f"{source.host} and {destination.host} are not of one address family")
    addresses = _ADDRESSES[family].pack(*hosts, source.port, destination.port)
    return _FIXED.pack(SIGNATURE, _VERSION << 4 | _PROXY, family, len(addresses)) + addresses


def _source(addresses: struct.Struct, data: bytes) -> Source:
    host, _, port, _ = addresses.unpack_from(data, _FIXED.size)
    return Source(str(ip_address(host)), port)


def _what_else(data: bytes) -> str:
    if VERSION_1.startswith(data[: len(VERSION_1)]):
        return "version 1 of the PROXY protocol, but only 2 is read; set send-proxy-v2 in the balancer"
    return (
        "no PROXY protocol header came first, and proxy.protocol.enable=true expects one of every connection; "
        "connect through the load balancer, or have it send version 2"
    )
