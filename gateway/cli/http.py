"""Requests to the gateways of a running Muster over HTTP, beside Kafka's APIs: /v1/..."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

from muster.gateway.cli.http_client import NO_ADDRESS, GatewayUrl, HttpError, NoHttpResponse, get, send
from muster.gateway.cli.running import known_gateways, status_over_ray
from muster.gateway.client.errors import MusterError

__all__ = ["GatewayUrl", "HttpError", "NoHttpResponse", "gateways", "get_json", "send"]


def get_json(directory: Path, address: str | None, path: str, **parameters: str) -> dict[str, Any]:
    """GET the path from any gateway of the selected Muster. Returns its JSON. Raises NoHttpResponse or HttpError."""
    failure = ""
    try:
        for gateway in gateways(directory, address):
            try:
                return get(gateway, path, parameters)
            except (OSError, HTTPException, ValueError) as error:
                failure = f"{gateway.base} does not respond ({error})"
    except HttpError:
        raise
    except MusterError as error:
        raise NoHttpResponse("; ".join(filter(None, (failure, error.message)))) from error
    raise NoHttpResponse(f"{failure}; see muster status" if failure else NO_ADDRESS)


def gateways(directory: Path, address: str | None) -> Iterator[GatewayUrl]:
    """Yield the gateways at their start and, if none of these responds, the other current ones. Raises CliError."""
    tried = set()
    for gateway in known_gateways(directory, address):
        tried.add(gateway.url)
        yield gateway
    status = status_over_ray(directory, address)
    urls = (actor.get("metrics_url") for actor in status["actors"])
    yield from (GatewayUrl(url, status["cluster_id"]) for url in urls if url and url not in tried)
