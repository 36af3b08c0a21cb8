"""``muster events``: streams of real gateways, one after the other."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest
from aiohttp import web

from muster.actors.runtime.process import now_ms
from muster.gateway.cli.events import Event, followed
from muster.gateway.client.http import GatewayUrl, HttpError, NoHttpResponse
from muster.gateway.http.server import gateway_app, start_http
from muster.placement.view import Broker
from tests.gateway.group_client import Fresh
from tests.gateway.serving import CLUSTER_ID, Serving
from tests.tables.rebalances import entry

PATIENCE_S = 30


@pytest.fixture(autouse=True)
def coordinator(full: Serving) -> None:
    assert full.run(full.gateway.coordinator_ready(0, 30))


class Reader:
    """Reads events in a thread."""

    def __init__(self, events: Iterator[Event]) -> None:
        self._events = events
        self._found: queue.Queue[Event | BaseException] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for event in self._events:
                self._found.put(event)
        except BaseException as error:
            self._found.put(error)

    def next(self, timeout_s: float = PATIENCE_S) -> Event:
        found = self._found.get(timeout=timeout_s)
        if isinstance(found, BaseException):
            raise found
        return found


@contextmanager
def gateways(full: Serving, count: int) -> Iterator[list[tuple[str, Callable[[], None]]]]:
    """Yield URLs of the gateway, and what ends each; views name them all."""
    runners: list[web.AppRunner] = []
    urls = []
    for _ in range(count):
        runner, port = full.run(start_http(gateway_app(full.gateway), "127.0.0.1", 0))
        runners.append(runner)
        urls.append(f"http://127.0.0.1:{port}")
    before = full.controller.brokers
    full.controller.brokers = tuple(
        Broker(id=number, host="one.test", port=9092 + number, node_id="n1", metrics_url=f"{url}/metrics")
        for number, url in enumerate(urls, 1)
    )
    full.follow(full.controller.view())

    def end(runner: web.AppRunner) -> Callable[[], None]:
        return lambda: full.run(runner.cleanup())

    try:
        yield [(url, end(runner)) for url, runner in zip(urls, runners, strict=True)]
    finally:
        for runner in runners:
            full.run(runner.cleanup())
        full.controller.brokers = before
        full.follow(full.controller.view())


def keep(full: Serving, group: str, *numbers: int) -> None:
    async def kept() -> None:
        assert full.actors is not None
        for number in numbers:
            ended = replace(entry(number), offsets_partition=0, group=group, ended_ms=now_ms())
            full.actors.histories[0].keep(ended)

    full.run(kept())


def until_heard(full: Serving, reader: Reader, group: str) -> None:
    """Keep rebalances with number 0 until one is read: the stream has begun."""
    while True:
        keep(full, group, 0)
        with suppress(queue.Empty):
            reader.next(1)
            return


def test_the_next_gateway_goes_on_where_one_ended(full: Serving, fresh: Fresh) -> None:
    group = fresh("g")
    with gateways(full, 2) as ((first, end_first), _):
        reader = Reader(followed(lambda: [GatewayUrl(first, CLUSTER_ID)], [("group", group)]))
        until_heard(full, reader, group)
        end_first()
        keep(full, group, 1, 2)
        found: list[int] = []
        while len(found) < 2:
            if (number := reader.next().values["number"]) != 0:
                found.append(number)
        keep(full, group, 3)
        assert [*found, reader.next().values["number"]] == [1, 2, 3]


def test_a_refusal_is_an_error(full: Serving) -> None:
    with gateways(full, 1) as ((url, _),):
        reader = Reader(followed(lambda: [GatewayUrl(url)], [("cause", "x")]))
        with pytest.raises(HttpError, match=r"cause 'x' does not exist; there are: .*member left"):
            reader.next()


def test_without_a_gateway_there_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(NoHttpResponse, match=r"does not respond .* see muster status"):
        Reader(followed(lambda: [GatewayUrl(url)], [])).next()
    with pytest.raises(NoHttpResponse):
        Reader(followed(list, [])).next()
