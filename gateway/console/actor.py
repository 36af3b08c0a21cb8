"""The Ray actor ``console``: one for each cluster.

It only listens until the first browser comes: what pages are made with takes 70 MB, and a second to load.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
from collections.abc import Iterable
from importlib import import_module

from muster.actors.config.overrides import METRICS
from muster.actors.runtime.actor import Actor
from muster.actors.runtime.follow import ViewFollower
from muster.actors.runtime.ray import store
from muster.actors.runtime.settings import CONSOLE_PORT, ClusterSettings
from muster.actors.runtime.started import Started
from muster.actors.wire.sockets.held import listening_sockets
from muster.gateway.console.api import Gateways
from muster.gateway.security.host_names import listed
from muster.gateway.security.tls.listeners import LOOK_S, TlsListeners
from muster.placement.host_port import host_port
from muster.placement.view import ClusterView, ConsoleAddress

log = logging.getLogger(__name__)

_APP = "muster.gateway.console.app"


class ConsoleActor(Actor):
    """``console``: serves the pages. Starts with OSError if its port is taken."""

    def __init__(self, settings: ClusterSettings, secret: bytes) -> None:
        super().__init__(settings, secret, "console")
        self._gateways = Gateways(())
        self._tasks: list[asyncio.Task[None]] = []

    async def _start(self) -> Started:
        config = self.settings.config
        self._follower = ViewFollower(self.settings, self.name)
        self._on_view(await self._follower.first())
        self._follower.follow(self._on_view)
        self._tls = await asyncio.to_thread(TlsListeners, config)
        node_id, address = self._node_and_address()
        first = config.all_listeners[0]
        at = first.host or self.settings.host or "0.0.0.0"  # noqa: S104 - bind rules apply
        kept = await asyncio.to_thread(store.get, CONSOLE_PORT, self.settings.namespace)
        self._sockets = _bound(at, _in_order(config.console_ports, kept))
        port = self._sockets[0].getsockname()[1]
        await asyncio.to_thread(store.put, CONSOLE_PORT, str(port), self.settings.namespace)
        trusted = self._tls.served(METRICS).client_context() if self._tls.http_context is not None else None
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._serve(trusted))]
        if trusted is not None:
            self._tasks.append(loop.create_task(self._follow_certificates(trusted)))
        scheme = "http" if trusted is None else "https"
        url = f"{scheme}://{host_port(first.own_address(self.settings.host or address), port)}/"
        log.info("the console is at %s", url)
        return Started(pid=os.getpid(), node_id=node_id, console=ConsoleAddress(node_id, url))

    def _on_view(self, view: ClusterView) -> None:
        self._gateways.found(broker.metrics_url for broker in view.brokers)

    async def _serve(self, trusted: ssl.SSLContext | None) -> None:
        try:
            await _first_connection(self._sockets)
            app = await asyncio.to_thread(import_module, _APP)
            hosts = listed(self.settings.config.console_allowed_hosts)
            await app.serve(
                self._gateways, ssl_context=self._tls.http_context, hosts=hosts, tls=trusted, sockets=self._sockets
            )
        except Exception:
            log.exception("the console cannot serve: this process ends")
            os._exit(1)

    async def _follow_certificates(self, trusted: ssl.SSLContext) -> None:
        """Use the newest files of the HTTP port's certificate, and take those of gateways."""
        while True:
            await asyncio.sleep(LOOK_S)
            before = self._tls.served(METRICS)
            try:
                await self._tls.apply(self.settings.config)
            except Exception:
                log.exception("the certificates could not be looked at")
            if (now := self._tls.served(METRICS)) is not before:
                now.trust(trusted)

    async def stop(self) -> None:
        """End the pages."""
        if self._started is None:
            return
        self._follower.stop()
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for each in self._sockets:
            each.close()
        self._tls.close()


def _in_order(ports: Iterable[int], kept: str | None) -> list[int]:
    """Return the ports to try: first the one that the last process had."""
    return list(dict.fromkeys([*([int(kept)] if kept else []), *ports]))


def _bound(host: str, ports: list[int]) -> list[socket.socket]:
    """Listen at the first of these ports that is free. Raises OSError."""
    for port in ports[:-1]:
        try:
            return listening_sockets(host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    return listening_sockets(host, ports[-1])


async def _first_connection(sockets: Iterable[socket.socket]) -> None:
    """Return once a connection waits to be accepted."""
    loop, come = asyncio.get_running_loop(), asyncio.Event()
    for each in sockets:
        loop.add_reader(each.fileno(), come.set)
    try:
        await come.wait()
    finally:
        for each in sockets:
            loop.remove_reader(each.fileno())
