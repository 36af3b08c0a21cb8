"""Requests of a command to the HTTP port of a gateway whose address is known, with ``--command-config``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from muster.gateway.cli.login import current_security
from muster.gateway.client import http
from muster.gateway.client.http import METRICS, GatewayUrl, HttpError, NoHttpResponse, OtherCluster

__all__ = ["METRICS", "NO_ADDRESS", "GatewayUrl", "HttpError", "NoHttpResponse", "OtherCluster", "get", "lines", "send"]

NO_ADDRESS = f"{http.NO_ADDRESS}; see muster status"


def get(
    gateway: GatewayUrl, path: str, parameters: Mapping[str, str] | None = None, timeout_s: float = http.TIMEOUT_S
) -> dict[str, Any]:
    """GET the path from the gateway. Returns its JSON. Raises HttpError, OSError, HTTPException, ValueError."""
    return http.get(gateway, path, parameters, timeout_s, current_security())


def lines(
    gateway: GatewayUrl,
    path: str,
    parameters: Sequence[tuple[str, str]],
    headers: Mapping[str, str],
    *,
    silence_s: float,
) -> AbstractContextManager[Iterator[str]]:
    """GET a response that comes line by line. See :func:`muster.gateway.client.http.lines`."""
    return http.lines(gateway, path, parameters, headers, silence_s=silence_s, security=current_security())


def send(gateways: Iterable[GatewayUrl], method: str, path: str, body: Any = None) -> dict[str, Any]:
    """Send the request to the first of these gateways that accepts a connection.

    See :func:`muster.gateway.client.http.send`.
    """
    return http.send(gateways, method, path, body, current_security())
