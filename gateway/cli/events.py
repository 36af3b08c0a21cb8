"""``muster events``: rebalances as they end, faults and actors, from any gateway's ``GET /v1/events``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from http import HTTPStatus
from http.client import HTTPException
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.words import counted
from muster.gateway.cli import http
from muster.gateway.cli.groups.history import row
from muster.gateway.cli.http_client import METRICS, NO_ADDRESS, GatewayUrl, HttpError, NoHttpResponse, get, lines
from muster.gateway.cli.names import NAME
from muster.gateway.cli.numbers import Whole
from muster.gateway.cli.output import print_json
from muster.gateway.cli.running import by_http
from muster.gateway.cli.times import utc
from muster.gateway.client.errors import MusterError

_PATH = "/v1/events"
_SILENCE_S = 45.0
"""Three heartbeats."""
_PAUSE_S = 1.0
LOST = "lost"


class Event(NamedTuple):
    kind: str
    values: dict[str, Any]


@click.command(epilog="Example: muster events --group billing --ending stable --count 1")
@by_http
@click.option("--group", "groups", type=NAME, multiple=True, help="Only rebalances of this group; also several times.")
@click.option("--cause", "causes", multiple=True, type=NAME, help='Only those with this cause, such as "member left".')
@click.option(
    "--ending", "endings", multiple=True, type=NAME, help="Only those that end so: stable, empty, restarted, aborted."
)
@click.option("--count", type=Whole(1), help="End after so many events. Default: at Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one event on each line.")
def events(
    directory: Path,
    address: str | None,
    groups: Sequence[str],
    causes: Sequence[str],
    endings: Sequence[str],
    count: int | None,
    as_json: bool,
) -> None:
    """Show rebalances as they end, and faults and actors that come and go.

    With --group, --cause or --ending, rebalances alone are shown. Times are in UTC. If a gateway ends, the next one
    goes on where it was. muster groups history GROUP shows earlier rebalances.
    """
    named = (("group", groups), ("cause", causes), ("ending", endings))
    selected = [(name, value) for name, values in named for value in values]
    terminal.line("waiting for events; Ctrl-C ends", err=True)
    with suppress(KeyboardInterrupt) if count is None else nullcontext():
        found = followed(lambda: http.gateways(directory, address), selected)
        for event in islice(_without_losses(found, as_json=as_json), count):
            _show(event, as_json=as_json)


def followed(find: Callable[[], Iterable[GatewayUrl]], selected: Sequence[tuple[str, str]]) -> Iterator[Event]:
    """Yield events for ever, from one gateway after the other. ``find`` returns those to try first.

    Raises HttpError if a gateway refuses, and NoHttpResponse if none responds at first.
    """
    streams = _Streams(selected)
    yield from streams.first(find)
    while True:
        time.sleep(_PAUSE_S)
        yield from streams.next()


class _Streams:
    """Streams of one gateway after the other, each of which goes on where the last one ended."""

    def __init__(self, selected: Sequence[tuple[str, str]]) -> None:
        self._selected = selected
        self._place = ""
        self._gateways: list[GatewayUrl] = []
        """Gateways of the cluster, once one has responded; first the one that is read next."""
        self._has_failed = False

    def first(self, find: Callable[[], Iterable[GatewayUrl]]) -> Iterator[Event]:
        """Yield the events of the first gateway that responds. Raises NoHttpResponse, HttpError."""
        failure = ""
        try:
            for gateway in find():
                failure = yield from self._read(gateway)
                if self._gateways:
                    return
        except HttpError:
            raise
        except MusterError as error:
            raise NoHttpResponse("; ".join(filter(None, (failure, error.message)))) from error
        raise NoHttpResponse(f"{failure}; see muster status" if failure else NO_ADDRESS)

    def next(self) -> Iterator[Event]:
        """Yield the events of the next gateway that responds; say once if none does. Raises HttpError."""
        for gateway in [*self._gateways]:
            failure = yield from self._read(gateway)
            self._gateways = [*(each for each in self._gateways if each != gateway), gateway]
            if not failure:
                return
        if not self._has_failed:
            self._has_failed = True
            terminal.line(f"{failure}; it is tried again, and Ctrl-C ends", err=True)

    def _read(self, gateway: GatewayUrl) -> Generator[Event, None, str]:
        """Yield events until the stream ends. Returns why there is none; empty if there was one. Raises HttpError."""
        is_open = False
        try:
            with self._opened(gateway) as found:
                is_open = True
                self._has_failed = False
                self._gateways = _gateways(gateway, self._gateways)
                yield from self._events(found)
        except HttpError as refused:
            if refused.status != HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            return f"{gateway.base}: {refused.message}"
        except (OSError, HTTPException, ValueError) as error:
            return "" if is_open else f"{gateway.base} does not respond ({error})"
        return ""

    def _opened(self, gateway: GatewayUrl) -> AbstractContextManager[Iterator[str]]:
        headers = {"Last-Event-ID": self._place} if self._place else {}
        return lines(gateway, _PATH, self._selected, headers, silence_s=_SILENCE_S)

    def _events(self, found: Iterable[str]) -> Iterator[Event]:
        kind = ""
        for line in found:
            name, _, value = line.partition(":")
            match name:
                case "id":
                    self._place = value.strip()
                case "event":
                    kind = value.strip()
                case "data":
                    yield Event(kind, json.loads(value))


def _gateways(first: GatewayUrl, known: Iterable[GatewayUrl]) -> list[GatewayUrl]:
    """Return all gateways, this one first; the known ones if it may not say."""
    try:
        found = [each["http"] for each in get(first, "/v1/cluster")["gateways"] if each["http"]]
    except (MusterError, OSError, HTTPException, ValueError, KeyError):
        found = []
    others = [GatewayUrl(f"{url}{METRICS}", first.cluster_id) for url in found] or known
    return [first, *(each for each in others if each.base != first.base)]


def _without_losses(found: Iterable[Event], *, as_json: bool) -> Iterator[Event]:
    """Yield the events; say on stderr what is lost."""
    for event in found:
        if event.kind != LOST:
            yield event
        elif as_json:
            _show(event, as_json=True)
        else:
            terminal.line(in_words(event), err=True)


def _show(event: Event, *, as_json: bool) -> None:
    if as_json:
        print_json({"event": event.kind, "data": event.values}, indent=None)
    else:
        terminal.line(in_words(event))


def in_words(event: Event) -> str:
    """Return the event in a line."""
    values = event.values
    match event.kind:
        case "rebalance":
            return _rebalance(values)
        case "fault":
            fault = values["fault"]
            details = {**fault["fault"], **({"actor": fault["actor"]} if "actor" in fault else {})}
            words = " ".join(f"{name}={value}" for name, value in details.items() if name != "action")
            what = f"{fault['id']} {values['what']}: {details['action']} {words}".rstrip()
            return f"{utc(values['at_ms'], millis=True)}  fault {what}"
        case "actor":
            words = "serves" if values["state"] == "alive" else f"is {values['state']}"
            return f"{utc(values['at_ms'], millis=True)}  {values['name']} {words}"
        case "lost" if values["coordinator"] is None and values["count"] is not None:
            return f"{counted(values['count'], 'rebalance')} left out: they came faster than they were read"
        case "lost":
            where = f" of {values['coordinator']}" if values["coordinator"] else ""
            some = "some rebalances" if values["count"] is None else counted(values["count"], "rebalance")
            return f"{some}{where} may be left out; muster groups history GROUP shows all"
    return f"{event.kind}: {json.dumps(values)}"


def _rebalance(entry: Mapping[str, Any]) -> str:
    _, generation, ending, cause, _, _, waited_for, *_ = row(entry)
    number = "" if generation is None else f" generation {generation}"
    took = f"{ending} after {(entry['ended_ms'] - entry['began_ms']) / 1000:.1f} s"
    waits = f"; {waited_for}" if waited_for else ""
    return f"{utc(entry['ended_ms'], millis=True)}  {entry['group']}{number}  {took}  {cause}{waits}"
