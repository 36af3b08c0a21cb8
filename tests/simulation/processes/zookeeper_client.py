"""Muster's own ZooKeeper client, with the simulated network in place of kazoo's socket and threads.

Everything above kazoo's ``_call`` is production code: retries, transactions, reads of many nodes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, KazooException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.handlers.utils import AsyncResult
from kazoo.protocol.serialization import GetData
from kazoo.protocol.states import KazooState

from muster.placement.zookeeper.access import ANYONE, Access
from muster.placement.zookeeper.client import ZooKeeperClient, _AddRecursiveWatch
from muster.placement.zookeeper.multi import MultiRead
from tests.simulation.processes.process import Machine, Process
from tests.simulation.processes.threads import Condition, Flag, here
from tests.simulation.processes.zookeeper import SESSION_MS, ZooKeeperServer

_PING_MS = 3_000
_QUIET = logging.getLogger("kazoo.quiet")


@dataclass(slots=True)
class Trouble:
    """Probabilities of faults, per request. All 0: no faults."""

    lost_request: float = 0.0
    lost_response: float = 0.0
    slow: float = 0.0


class Ensemble:
    """The server, and the network to it."""

    def __init__(self, machine: Machine, server: ZooKeeperServer) -> None:
        self.machine = machine
        self.server = server
        self.trouble = Trouble()
        self.clients: list[SimulatedClient] = []
        self.down_until_ms = 0
        self.expired = 0
        self.writer: Process | None = None
        """The process whose request is executed, or was last."""
        self.read: Callable[[Process], None] = lambda process: None
        """Called when a process has read nodes, some of which it may write."""
        self._expire()

    def client(self, hosts: str, access: Access = ANYONE) -> SimulatedClient:
        """Replace ``muster.placement.zookeeper.client.client`` in the process that is running. Everyone may do all."""
        client = SimulatedClient(hosts, self, here())
        self.clients.append(client)
        return client

    @property
    def is_down(self) -> bool:
        return self.machine.schedule.now_ms < self.down_until_ms

    def latency_ms(self) -> int:
        chance = self.machine.chance
        return chance.choice([20, 400, 2_500]) if chance.random() < self.trouble.slow else chance.randint(0, 2)

    def _expire(self) -> None:
        if not self.is_down:
            ended = self.server.expire()
            self.expired += len(ended)
            for session in ended:
                self.machine.note("ZooKeeper: session %s expires", session)
        self.machine.schedule.after(1_000, self._expire)


class _Handler:
    """kazoo's handler, as far as results of requests need one."""

    running = False
    timeout_exception = KazooTimeoutError

    def async_result(self) -> AsyncResult:
        return AsyncResult(self, Condition, KazooTimeoutError)


class SimulatedClient(ZooKeeperClient):
    def __init__(self, hosts: str, ensemble: Ensemble, process: Process) -> None:
        super().__init__(hosts, logger=_QUIET)
        self.process = process
        self.handler = _Handler()
        self._live, self._stopped = Flag(), Flag()
        self._ensemble = ensemble
        self._machine = ensemble.machine
        self._session = 0
        self._connected_times = 0
        self._cut_until_ms = 0
        self._pending: dict[AsyncResult, Any] = {}
        self._sent_ms = self._received_ms = 0
        process.at_end.append(self._process_ended)

    # kazoo's own interface.

    def start_async(self) -> Flag:
        self.process.after(0, self._connect)
        self.process.after(_PING_MS, self._ping)
        return self._live

    def shut(self) -> None:
        if not self.process.alive or self._stopped.is_set():
            return
        self._stopped.set()
        if self._live.is_set():
            self._ensemble.server.close_session(self._session)
        self._lose_connection(ConnectionClosedError())

    @property
    def client_id(self) -> tuple[int, bytes] | None:
        return (self._session, b"") if self._live.is_set() else None

    def _call(self, request: Any, result: AsyncResult) -> None:
        if self._stopped.is_set():
            result.set_exception(ConnectionClosedError())
        elif not self._live.is_set():
            result.set_exception(ConnectionLoss())
        else:
            self._pending[result] = request
            connection = self._connected_times
            self._sent_ms = max(self._sent_ms, self._machine.schedule.now_ms + self._ensemble.latency_ms())
            self._machine.schedule.at(self._sent_ms, lambda: self._arrives(request, result, connection))

    # The network.

    @property
    def _reaches_server(self) -> bool:
        return not self._ensemble.is_down and self._machine.schedule.now_ms >= self._cut_until_ms

    def cut(self, ms: int) -> None:
        """Cut the network for that time; the client notices when its next request or ping has no response."""
        self._cut_until_ms = max(self._cut_until_ms, self._machine.schedule.now_ms + ms)

    def _arrives(self, request: Any, result: AsyncResult, connection: int) -> None:
        chance, trouble = self._machine.chance, self._ensemble.trouble
        if not self.process.alive or connection != self._connected_times:
            if self._live.is_set() or chance.random() < 0.5:  # it was in flight when the connection was lost
                return
            connection = -1
        if not self._reaches_server or chance.random() < trouble.lost_request:
            self._breaks(connection)
            return
        if self._session not in self._ensemble.server.sessions:
            self._breaks(connection)
            return
        value: Any
        try:
            if isinstance(request, _AddRecursiveWatch):
                self._ensemble.server.watches[self, request.path] = self._event(connection)
                value = True
            else:
                self._ensemble.writer = self.process
                value = self._ensemble.server.do(request, self._session)
                if isinstance(request, MultiRead | GetData):
                    self._ensemble.read(self.process)
        except KazooException as error:
            value = error
        if chance.random() < trouble.lost_response:
            self._breaks(connection)
            return
        self._send_back(connection, lambda: self._respond(result, value))

    def _send_back(self, connection: int, receive: Callable[[], None]) -> None:
        """Responses arrive in the order of sending; those on an old connection are dropped."""
        now_ms = self._machine.schedule.now_ms
        self._received_ms = max(self._received_ms, now_ms + self._ensemble.latency_ms())

        def received() -> None:
            if connection == self._connected_times and self._live.is_set():
                receive()

        self.process.after(self._received_ms - now_ms, received)

    def _respond(self, result: AsyncResult, value: Any) -> None:
        if self._pending.pop(result, None) is None:
            return
        if isinstance(value, KazooException):
            result.set_exception(value)
        else:
            result.set(value)

    def _event(self, connection: int) -> Callable[[int, str], None]:
        def notify(kind: int, path: str) -> None:
            self._send_back(connection, lambda: self.dispatch_tree_events([(kind, path)]))

        return notify

    def _breaks(self, connection: int) -> None:
        """Break the connection; the client will notice a moment later."""

        def notice() -> None:
            if connection == self._connected_times and self._live.is_set():
                self._lose_connection(ConnectionLoss())
                self.process.after(self._machine.chance.choice([10, 100, 1_000]), self._connect)

        self.process.after(self._machine.chance.choice([5, 50, 3_000]), notice)

    def _lose_connection(self, error: KazooException) -> None:
        self._connected_times += 1
        self._live.clear()
        for watch in [each for each in self._ensemble.server.watches if each[0] is self]:
            del self._ensemble.server.watches[watch]
        pending, self._pending = self._pending, {}
        for result in pending:
            result.set_exception(error)
        self._make_state_change(KazooState.SUSPENDED)

    def _connect(self) -> None:
        if self._stopped.is_set() or self._live.is_set():
            return
        if not self._reaches_server:
            self.process.after(500, self._connect)
            return
        server = self._ensemble.server
        if self._session and not server.hear(self._session):
            self._session = 0
            self._make_state_change(KazooState.LOST)
        if not self._session:
            self._session = server.open_session()
        self._connected_times += 1
        self._sent_ms = self._received_ms = self._machine.schedule.now_ms
        self._live.set()
        self._make_state_change(KazooState.CONNECTED)

    def _ping(self) -> None:
        if self._stopped.is_set():
            return
        if self._live.is_set() and not (self._reaches_server and self._ensemble.server.hear(self._session)):
            self._breaks(self._connected_times)
        self.process.after(_PING_MS, self._ping)

    def _process_ended(self) -> None:
        """Close the socket, like the kernel; the session remains until it expires."""
        self._live.clear()
        self._connected_times += 1
        for watch in [each for each in self._ensemble.server.watches if each[0] is self]:
            del self._ensemble.server.watches[watch]


assert SESSION_MS > 2 * _PING_MS
