"""What gateways tell and do over HTTP beside Kafka's APIs: /v1/..."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

from gateway.cli.errors import CliError
from gateway.cli.running import state_of, status_of

_TIMEOUT_S = 30.0
_METRICS = "/metrics"
_OPENER = build_opener(ProxyHandler({}))


class NotTold(CliError):
    """No gateway answers over HTTP."""


class Refused(CliError):
    """A gateway answers with an error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def ask(directory: Path, address: str | None, path: str, **parameters: str) -> dict[str, Any]:
    """GET the path from any gateway of the Muster that is meant: its JSON. NotTold, Refused."""
    failure = ""
    try:
        for base in _gateways(directory, address):
            try:
                return _answer(Request(f"{base}{path}?{urlencode(parameters)}"))
            except (OSError, HTTPException, ValueError) as error:
                failure = f"{base} does not answer ({error})"
    except Refused:
        raise
    except CliError as error:
        raise NotTold("; ".join(filter(None, (failure, error.message)))) from error
    raise NotTold(f"{failure or 'no gateway has an HTTP address'}; muster status shows what runs")


def _gateways(directory: Path, address: str | None) -> Iterator[str]:
    """Where gateways were when they started, and, if none of these answers, where they are now. CliError."""
    if address is None:
        yield from (url.removesuffix(_METRICS) for url in state_of(directory).metrics)
    for actor in status_of(directory, address)["actors"]:
        if url := actor.get("metrics_url"):
            yield url.removesuffix(_METRICS)


def send(urls: Iterable[str], method: str, path: str, body: Any = None) -> dict[str, Any]:
    """Have the first of these gateways that can be connected to do something: its JSON. NotTold, Refused.

    ``urls``: with or without /metrics. No other gateway is asked to do again what one may have done.
    """
    bases = [url.rstrip("/").removesuffix(_METRICS) for url in urls]
    for base in bases:
        request = Request(f"{base}{path}", method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            return _answer(request)
        except URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise NotTold(f"{base} does not answer: {error.reason}") from error
        except (OSError, HTTPException, ValueError) as error:
            raise NotTold(f"{base} does not answer: {str(error) or type(error).__name__}") from error
    raise NotTold(f"no gateway listens at {', '.join(bases)}")


def _answer(request: Request) -> dict[str, Any]:
    try:
        with _OPENER.open(request, timeout=_TIMEOUT_S) as response:
            answer: dict[str, Any] = json.load(response)
            return answer
    except HTTPError as error:
        with error:
            raise Refused(error.code, _text_of(error)) from error


def _text_of(error: HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {error.code}"
