"""The notation of an address that is followed by a port."""

from __future__ import annotations


def host_port(host: str, port: int) -> str:
    """``HOST:PORT``, an IPv6 address in brackets (RFC 3986, RFC 5952)."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
