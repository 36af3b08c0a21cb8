"""Gateways: processes that forward requests to the copy that serves, and answer heartbeats that they have leases of.

Their connections to copies, and the leases, are the product's own.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from muster.actors.group.codec import adapters
from muster.actors.wire.internal import envelope
from muster.actors.wire.internal.channel import Channel, ChannelLost
from muster.actors.wire.internal.envelope import Kind
from muster.actors.wire.internal.leases import MemberLease
from muster.actors.wire.internal.listener import Peer, Server
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.framing import Framer
from muster.gateway.listener.leased import LATER, LeasedHeartbeats
from muster.placement.view import Endpoint
from tests.simulation.processes.acknowledged import Acknowledged, Handled
from tests.simulation.processes.copies import SECRET, Copy
from tests.simulation.processes.pipes import Pipe
from tests.simulation.processes.process import Machine, Process
from tests.simulation.processes.sessions import Sessions

E = ErrorCode
Respond = Callable[[bytes | None], None]
_AGAIN_MS = 50


class _WatchedFramer(Framer):
    """Calls ``comes`` with each message before it is served."""

    def __init__(self, limit_bytes: int, comes: Callable[[bytes], None]) -> None:
        super().__init__(limit_bytes)
        self._comes = comes

    def feed(self, data: bytes) -> list[bytes]:
        messages = super().feed(data)
        for message in messages:
            self._comes(message)
        return messages


class WatchedPeer(Peer):
    """A gateway's connection, on the copy's side; requests and responses are noted as they pass."""

    def __init__(self, server: Server, copy: Copy, epoch: int, acknowledged: Acknowledged, sessions: Sessions) -> None:
        super().__init__(server)
        self._copy = copy
        self._epoch = epoch
        self._acknowledged = acknowledged
        self._sessions = sessions
        self._handled: dict[int, tuple[Handled, codec.Header, Any]] = {}
        self._number = next(sessions.peers)
        self._framer = _WatchedFramer(self._framer.limit_bytes, self._comes)

    def __hash__(self) -> int:
        """Hash by number: sets of peers have the same order in every run of a seed."""
        return self._number

    def _comes(self, message: bytes) -> None:
        if self._proven and message[0] == Kind.REQUEST:
            token, _, frame = envelope.read_request(message)
            header = codec.decode_header(frame)
            entity = codec.decode_request(header, frame)
            handled = self._acknowledged.handled(self._epoch, header.api_key, entity)
            self._handled[token] = handled, header, entity
            self._sessions.sign(self._copy, self._epoch, entity)

    def reply(self, token: int, frame: bytes) -> None:
        found = self._handled.pop(token, None)
        if found is not None:
            request, header, entity = found
            self._acknowledged.answered(request, codec.decode_response(header.api_key, header.api_version, frame)[1])
            if header.api_key == adapters.SYNC_GROUP:  # a session begins when its response is sent
                self._sessions.sign(self._copy, self._epoch, entity)
        super().reply(token, frame)


class _Link:
    """A connection to one copy."""

    def __init__(self, gateway: GatewayProcess, copy: Copy, epoch: int, server: Server) -> None:
        self.copy = copy
        self.epoch = epoch
        endpoint = Endpoint(node_id=copy.name, host="", port=0, path=copy.name, secret=SECRET)
        self.channel = Channel(endpoint, None, lambda: gateway.lost(self))
        peer = WatchedPeer(server, copy, epoch, gateway.acknowledged, gateway.sessions)
        server._peers.add(peer)
        self.pipe = Pipe(gateway, self.channel, copy, peer)
        gateway.sessions.connected(gateway, copy, epoch, self.pipe)


class GatewayProcess(Process):
    """Serves clients, each of which has one connection to it."""

    def __init__(self, machine: Machine, name: str, acknowledged: Acknowledged, sessions: Sessions) -> None:
        super().__init__(machine, name)
        self.acknowledged = acknowledged
        self.sessions = sessions
        self.target: Copy | None = None
        """The coordinator, as far as it knows."""
        self.link: _Link | None = None
        self._leases: defaultdict[str, LeasedHeartbeats] = defaultdict(LeasedHeartbeats)
        self._outstanding: defaultdict[str, int] = defaultdict(int)
        self._responds: dict[int, Respond] = {}
        self._numbers = itertools.count(1)
        self.at_end.append(self._break_connections)

    def _break_connections(self) -> None:
        responds, self._responds = self._responds, {}
        for respond in responds.values():
            respond(None)

    # The connection to the coordinator.

    def follow(self, target: Copy) -> None:
        """Follow a new view."""
        self.target = target
        self.after(0, self._connect)

    def _connect(self) -> None:
        link, target = self.link, self.target
        if target is None or (link is not None and link.copy is target and link.epoch == target.epoch):
            return
        if link is not None:
            self.link = None
            link.channel.close()
        server = target.server
        if server is None:
            self.after(_AGAIN_MS, self._connect)
        else:
            self.link = _Link(self, target, target.epoch, server)

    def lost(self, link: _Link) -> None:
        if self.link is link:
            self.link = None
            self.after(_AGAIN_MS, self._connect)

    # Requests.

    def deliver(self, sender: str, host: str, frame: bytes, respond: Respond) -> None:
        if not self.alive:
            respond(None)
            return
        number = next(self._numbers)
        self._responds[number] = respond
        self.after(self.machine.chance.randint(0, 1), lambda: self._serve(number, sender, host, frame))

    def _respond(self, number: int, frame: bytes) -> None:
        if (respond := self._responds.pop(number, None)) is not None:
            respond(frame)

    def _serve(self, number: int, sender: str, host: str, frame: bytes) -> None:
        link, leases = self.link, self._leases[sender]

        def again() -> None:
            self._outstanding[sender] -= 1
            self._serve(number, sender, host, frame)

        if not self._outstanding[sender] and (response := leases.respond(frame, self.loop.time(), again)) is not None:
            if response is LATER:
                self._outstanding[sender] += 1
                return
            assert link is not None
            self.sessions.leased(self, link.copy, link.epoch, link.pipe, _entity(frame))
            self._respond(number, response)
            return
        if link is None or not link.channel.usable:
            self._respond(number, _response_while_down(frame))
            return

        def on_lease(lease: MemberLease, response: bytes) -> None:
            leases.add(frame, lease, response, is_allowed=lambda: True, answered=lambda: None)

        def done(future: asyncio.Future[bytes]) -> None:
            self._outstanding[sender] -= 1
            try:
                self._respond(number, future.result())
            except ChannelLost:
                self._respond(number, _response_while_down(frame))

        self._outstanding[sender] += 1
        context = envelope.write_context(host, f"{self.name}-{sender}", "User:ANONYMOUS")
        link.channel.call(context, frame, on_lease).add_done_callback(done)


class Gateways:
    """Each client uses one gateway."""

    def __init__(self, machine: Machine, acknowledged: Acknowledged, sessions: Sessions, count: int) -> None:
        self._machine = machine
        self._acknowledged = acknowledged
        self._sessions = sessions
        self._lives = itertools.count(1)
        self.processes = [self._new(number) for number in range(count)]

    def _new(self, number: int) -> GatewayProcess:
        name = f"gateway{number}.{next(self._lives)}"
        return GatewayProcess(self._machine, name, self._acknowledged, self._sessions)

    @property
    def targets(self) -> list[Copy | None]:
        return [each.target for each in self.processes]

    def replace(self, number: int) -> None:
        """SIGKILL; another process serves at the same address, and knows the same view."""
        killed = self.processes[number]
        killed.kill()
        self.processes[number] = self._new(number)
        if killed.target is not None:
            self.processes[number].follow(killed.target)

    def deliver(self, sender: str, honest: bool, host: str, _: str, frame: bytes, respond: Respond) -> None:
        """Each client has one connection of its own here, which its leases belong to."""
        self.processes[sum(sender.encode()) % len(self.processes)].deliver(sender, host, frame, respond)


def _entity(frame: bytes) -> Any:
    return codec.decode_request(codec.decode_header(frame), frame)


def _response_while_down(frame: bytes) -> bytes:
    """Like the gateway (gateway/apis/groups/forwarding.py)."""
    header = codec.decode_header(frame)
    error = {adapters.HEARTBEAT: E.none, adapters.SYNC_GROUP: E.not_coordinator}.get(
        header.api_key, E.coordinator_load_in_progress
    )
    body = adapters.error_body(header.api_key, header.api_version, _entity(frame), error)
    return codec.encode_response(header.api_key, header.api_version, 0, body)
