"""What gateways tell over HTTP beside Kafka's APIs: /v1/..."""

from __future__ import annotations

import json
from collections.abc import Iterable
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

from gateway.cli.errors import CliError
from gateway.cli.running import state_of, status_of

_TIMEOUT_S = 30.0
_METRICS = "/metrics"
_OPENER = build_opener(ProxyHandler({}))


class NotTold(CliError):
    """No gateway answers over HTTP."""


def ask(directory: Path, address: str | None, path: str, **parameters: str) -> dict[str, Any]:
    """GET the path from any gateway of the Muster that is meant: its JSON. CliError if it refuses, or none answers."""
    failure = "no gateway has an HTTP address"
    for gateways in _places(directory, address):
        for base in gateways:
            try:
                return _get(f"{base}{path}?{urlencode(parameters)}")
            except (OSError, HTTPException, ValueError) as error:
                failure = f"{base} does not answer ({error})"
    raise NotTold(f"{failure}; muster status shows what runs")


def _places(directory: Path, address: str | None) -> Iterable[tuple[str, ...]]:
    """Where gateways were when they started, and, if none of these answers, where they are now."""
    if address is None:
        yield tuple(url.removesuffix(_METRICS) for url in state_of(directory).metrics)
    actors = status_of(directory, address)["actors"]
    yield tuple(actor["metrics_url"].removesuffix(_METRICS) for actor in actors if actor.get("metrics_url"))


def _get(url: str) -> dict[str, Any]:
    try:
        with _OPENER.open(url, timeout=_TIMEOUT_S) as response:
            answer: dict[str, Any] = json.load(response)
            return answer
    except HTTPError as error:
        raise CliError(_refusal(error)) from error


def _refusal(error: HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {error.code}"
