"""What is between clients and copies: gateways, which learn sooner or later which copy serves, and the controller."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import KazooException
from kio.schema.errors import ErrorCode

from muster.actors.group.codec import adapters
from muster.actors.offsets.held import Known, news
from muster.actors.offsets.partition import OffsetsPartition
from muster.actors.reconciler.reconciler import Reconciler
from muster.actors.wire import codec
from muster.placement.client import Context
from muster.placement.epochs import ActorEpoch, Superseded, next_epoch, take_controller_epoch
from muster.placement.mapping.registration import Registration
from muster.placement.view import OFFSETS_TOPIC
from muster.placement.zookeeper.client import ZooKeeperUnreachable
from tests.simulation.processes.acknowledged import Acknowledged, Handled
from tests.simulation.processes.copies import PARTITION, Copy
from tests.simulation.processes.process import Machine, Process
from tests.simulation.processes.zookeeper_client import Ensemble

E = ErrorCode
Respond = Callable[[bytes | None], None]


class Peer:
    """A gateway's connection to a copy, seen from the copy."""

    def __init__(self, number: int, process: Process, acknowledged: Acknowledged) -> None:
        self._number = number
        self._process = process
        self._acknowledged = acknowledged
        self.waiting: dict[int, tuple[Handled, int, int, Respond]] = {}
        """By token: the request, its API key and version, and the callback for the response."""
        process.at_end.append(self.close)

    def __hash__(self) -> int:
        return self._number

    def reply(self, token: int, frame: bytes) -> None:
        found = self.waiting.pop(token, None)
        if found is not None and self._process.alive:
            request, api_key, version, respond = found
            self._acknowledged.answered(request, codec.decode_response(api_key, version, frame)[1])
            respond(frame)

    def send(self, *parts: bytes) -> None:
        """Registration updates, for attribution."""

    def close(self) -> None:
        waiting, self.waiting = self.waiting, {}
        for _, _, _, respond in waiting.values():
            respond(None)


class Gateways:
    """Each client uses one gateway. ``targets``: each gateway's current coordinator, as far as it knows."""

    def __init__(self, machine: Machine, acknowledged: Acknowledged, count: int) -> None:
        self.targets: list[Copy | None] = [None] * count
        self._machine = machine
        self._acknowledged = acknowledged
        self._peers: dict[tuple[int, OffsetsPartition], Peer] = {}
        self._tokens = itertools.count(1)
        self._numbers = itertools.count(1)

    def deliver(self, sender: str, honest: bool, host: str, frame: bytes, respond: Respond) -> None:
        number = sum(sender.encode()) % len(self.targets)
        target = self.targets[number]
        header = codec.decode_header(frame)
        entity = codec.decode_request(header, frame)
        if target is None or not target.alive:
            self._respond_while_down(header, entity, respond)
            return
        target.after(self._machine.chance.randint(0, 1), lambda: self._handle(number, target, host, frame, respond))

    def _handle(self, number: int, target: Copy, host: str, frame: bytes, respond: Respond) -> None:
        header = codec.decode_header(frame)
        entity = codec.decode_request(header, frame)
        core = target.core
        if core is None:
            self._respond_while_down(header, entity, respond)
            return
        peer = self._peers.get((number, core))
        if peer is None:
            peer = self._peers[number, core] = Peer(next(self._numbers), target, self._acknowledged)
            core.joined(peer)  # type: ignore[arg-type]
        token = next(self._tokens)
        request = self._acknowledged.handled(core.epoch, header.api_key, entity)
        peer.waiting[token] = request, header.api_key, header.api_version, respond
        core.request(peer, token, Context(client_id=header.client_id, host=host), frame)  # type: ignore[arg-type]

    @staticmethod
    def _respond_while_down(header: codec.Header, entity: Any, respond: Respond) -> None:
        """Like the gateway (gateway/apis/groups/forwarding.py)."""
        error = {adapters.HEARTBEAT: E.none, adapters.SYNC_GROUP: E.not_coordinator}.get(
            header.api_key, E.coordinator_load_in_progress
        )
        body = adapters.error_body(header.api_key, header.api_version, entity, error)
        respond(codec.encode_response(header.api_key, header.api_version, 0, body))


class Controller(Process):
    """Takes leader epochs for copies. There may be two controllers, one of which does not know of the other."""

    def __init__(self, machine: Machine, name: str, ensemble: Ensemble, acknowledged: Acknowledged) -> None:
        super().__init__(machine, name)
        self._ensemble = ensemble
        self._acknowledged = acknowledged
        self._mine: ActorEpoch | None = None
        self.busy = False
        self.superseded = False
        self.after(0, self._start)

    def _start(self) -> None:
        self._zk = self._ensemble.client("simulated:2181")
        self._zk.start_async()

    def take_epoch(self, owner: str, then: Callable[[int], None]) -> None:
        """Call ``then`` with a new leader epoch, if one is available now."""
        if self.busy or self.superseded:
            return
        self.busy = True

        def work() -> None:
            try:
                if self._mine is None:
                    self._mine = take_controller_epoch(self._zk)
                epoch = next_epoch(self._zk, OFFSETS_TOPIC, PARTITION, owner, holder=self._mine)
            except Superseded:
                self.machine.note("%s is superseded", self.name)
                self.superseded = True
            except (ZooKeeperUnreachable, KazooException) as error:
                self.machine.note("%s gets no epoch: %s", self.name, repr(error))
            else:
                self._acknowledged.epoch_given(epoch)
                then(epoch)
            finally:
                self.busy = False

        self.after(0, lambda: self.start_thread(work))


class ReconcilerProcess(Process):
    """The real reconciler. ``target``: the coordinator, as far as it knows."""

    def __init__(self, machine: Machine, name: str) -> None:
        super().__init__(machine, name)
        self.target: Copy | None = None
        self._known = Known()
        self.after(0, self._start)

    def _start(self) -> None:
        self.reconciler = Reconciler("simulated:2181", 3_000, self._registrations)
        self.loop.create_task(self.reconciler.run())

    async def _registrations(self) -> dict[int, tuple[Registration, ...]]:
        target = self.target
        if target is None or not target.alive:
            return {}
        response = self.loop.create_future()
        known = self._known.versions().get(PARTITION)

        def query() -> None:
            held = target.host.registrations()
            said = {each: news(some, known) for each, some in held.items()}
            self.after(1, lambda: None if response.done() else response.set_result(said))

        target.after(1, query)
        self.after(5_000, lambda: None if response.done() else response.set_result({}))
        return {each: self._known.take(each, some) for each, some in (await response).items()}
