"""The world of one seed: copies of an offsets actor, their surroundings, the faults, and the end."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kazoo.protocol.serialization import Create

from muster.actors.group.codec.adapters import OFFSET_FETCH
from muster.actors.group.state import GroupState
from muster.actors.group.types import GroupId
from muster.placement.layout import BROKER_IDS, Malformed, encode_topic, topic_path
from muster.placement.mapping.nodes import (
    decode_registration,
    is_registration_path,
)
from muster.placement.view import OFFSETS_TOPIC, ClusterView, Topic
from tests.simulation.base_world import START_MS
from tests.simulation.brief import brief
from tests.simulation.client import fetch_body
from tests.simulation.consumer import Consumer, Stage
from tests.simulation.network import Network
from tests.simulation.planted.broken import Broken
from tests.simulation.processes.acknowledged import Acknowledged
from tests.simulation.processes.cluster import Controller, ReconcilerProcess
from tests.simulation.processes.copies import PARTITION, TOPIC_ID, Copy, settings_of
from tests.simulation.processes.disk import Storage
from tests.simulation.processes.gateways import Gateways
from tests.simulation.processes.installed import installed
from tests.simulation.processes.mapping import unlike
from tests.simulation.processes.process import Machine, Process
from tests.simulation.processes.sessions import Sessions
from tests.simulation.processes.zookeeper import CHANGED, CREATED, DELETED, ZooKeeperServer
from tests.simulation.processes.zookeeper_client import Ensemble
from tests.simulation.schedule import Schedule
from tests.simulation.strangers import SimpleConsumer

STEPS = 8_000
"""Events before the faults stop."""
HEALING_MS = 240_000
"""Time limit for the recovery after the faults have stopped."""
TRACE = 80
MAX_COPIES = 4
_EVENTS = {CREATED: "creates", CHANGED: "changes", DELETED: "deletes"}


class World:
    def __init__(self, seed: int, *, trace_all: bool = False) -> None:
        self.chance = random.Random(seed)
        self.schedule = Schedule(START_MS)
        self.trace: deque[tuple[int, str, tuple[Any, ...]]] = deque(maxlen=None if trace_all else TRACE)
        self.topics = {"t0": 3, "t1": 2}
        self.rumours: dict[str, Any] = {}
        self.machine = Machine(self.schedule, self.chance, self.note)
        self.server = ZooKeeperServer(lambda: self.schedule.now_ms, self._node_changed)
        self.ensemble = Ensemble(self.machine, self.server)
        self.ensemble.read = self._nodes_are_read
        self.acknowledged = Acknowledged(self.machine)
        self.sessions = Sessions(self.machine, self.acknowledged.counts)
        self.sessions.answered = self._heartbeat_is_answered
        self.gateways = Gateways(self.machine, self.acknowledged, self.sessions, 3)
        self.network = Network(self.schedule, self.chance, self.gateways)  # type: ignore[arg-type]
        self.copies: list[Copy] = []
        self.serving: tuple[int, Copy] | None = None
        """The highest epoch reported to the controller as serving, and the copy that reported it."""
        self._faulty = True
        self._next_offset = 0
        self._config = self._new_config()

    def _new_config(self) -> dict[str, Any]:
        chance = self.chance
        return {
            "offsets.topic.num.partitions": 1,
            "group.initial.rebalance.delay.ms": chance.choice([0, 500]),
            "group.min.session.timeout.ms": 1_000,
            "group.coordinator.append.linger.ms": chance.choice([0, 0, 5]),
            "offsets.commit.timeout.ms": chance.choice([1_000, 5_000]),
            "offsets.topic.segment.bytes": chance.choice([1_000, 5_000, 1 << 20]),
            "log.cleaner.backoff.ms": chance.choice([2_000, 15_000]),
            "log.cleaner.min.cleanable.ratio": chance.choice([0.0, 0.5]),
        }

    @property
    def counts(self) -> Counter[str]:
        return self.acknowledged.counts + Counter({"sessions expired": self.ensemble.expired})

    def next_offset(self) -> int:
        """Return an offset that was not committed before."""
        self._next_offset += 1
        return self._next_offset

    def note(self, text: str, *args: Any) -> None:
        """Note a line of the trace; formatted only when it is read."""
        self.trace.append((self.schedule.now_ms - START_MS, text, args))

    def history(self) -> Iterator[str]:
        for at_ms, text, args in self.trace:
            yield f"{at_ms:>8} ms  {text % tuple(brief(each) for each in args)}"

    # Running.

    def run(self, steps: int = STEPS) -> None:
        """Run the whole history. Raises Broken."""
        memory = Path("/dev/shm")
        folder = Path(tempfile.mkdtemp(prefix="muster-simulation-", dir=memory if memory.is_dir() else None))
        try:
            with installed(self.machine, self.ensemble):
                try:
                    self._begin(folder)
                    while self.schedule.steps < steps:
                        self._step()
                    self._heal()
                finally:
                    self.machine.close()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _step(self) -> None:
        self.schedule.step()
        self.sessions.look(self.copies)
        if self.machine.broken is not None:
            raise self.machine.broken

    def _begin(self, folder: Path) -> None:
        self.storage = Storage(folder, self.chance)
        self._settings = settings_of(folder, self._config)
        offsets_topic = Topic(name=OFFSETS_TOPIC, topic_id=TOPIC_ID, partitions=1, internal=True)
        self.view = ClusterView(
            cluster_id="simulated",
            controller_epoch=1,
            version=1,
            brokers=(),
            topics={OFFSETS_TOPIC: offsets_topic},
            logs={},
            offsets={PARTITION: None},
        )
        for path, data in ((BROKER_IDS, b""), (topic_path(OFFSETS_TOPIC), encode_topic(offsets_topic))):
            names = path.split("/")[1:]
            for depth in range(1, len(names) + 1):
                parent = "/" + "/".join(names[:depth])
                if parent not in self.server.nodes:
                    self.server.do(Create(parent, data if parent == path else b"", None, 0), 0)
        self.controller = Controller(self.machine, "controller1", self.ensemble, self.acknowledged)
        self.reconciler = ReconcilerProcess(self.machine, "reconciler")
        for _ in range(2):
            self._new_copy()
        self.consumers = [*self._new_consumers()]
        for consumer in self.consumers:
            consumer.later(self.chance.randint(0, 3_000), consumer.start)
        self.strangers = [SimpleConsumer(self, f"simple{n}", [f"s{n}"], self.chance.choice([200, 800])) for n in (1, 2)]
        for stranger in self.strangers:
            stranger.start()
        self._take_care()
        self._trouble_begins()

    def _new_copy(self) -> Copy:
        number = len(self.copies) + 1
        ends = self.chance.random() < 0.5
        copy = Copy(self.machine, number, self.storage, self._settings, self.acknowledged, self.sessions, ends)
        self.copies.append(copy)
        return copy

    def _new_consumers(self) -> Iterator[Consumer]:
        for group in ("g0", "g1")[: self.chance.randint(1, 2)]:
            for number in range(self.chance.randint(1, 3)):
                instance = f"{group}-i{number}" if self.chance.random() < 0.3 else None
                consumer = Consumer(self, f"{group}-c{number}", group, instance=instance, topics=("t0", "t1"))
                if self.chance.random() < 0.4:  # nothing but heartbeats
                    consumer.poll_ms = 60_000
                match self.chance.randrange(3):
                    case 0:
                        consumer.heartbeat_ms = 400
                    case 1:  # always at the last moment
                        consumer.session_ms = 2_000
                        consumer.heartbeat_ms = consumer.session_ms - self.chance.choice([5, 60, 90])
                yield consumer

    # The controller's decisions.

    def _take_care(self) -> None:
        """From time to time the controller checks whether the partition is served."""
        if self.controller.superseded or not self.controller.alive:
            number = int(self.controller.name.removeprefix("controller")) + 1
            self.controller = Controller(self.machine, f"controller{number}", self.ensemble, self.acknowledged)
        copy = self.serving[1] if self.serving is not None else None
        if copy is None or not copy.alive or (not copy.is_stopped and copy.core is None):
            self._fail_over(None)
        self.schedule.after(1_500, self._take_care)

    def _fail_over(self, predecessor: Copy | None) -> None:
        """Have another copy serve. ``predecessor`` must hand over; None: it is considered dead."""
        if self.controller.busy:
            return
        current = self.serving[1] if self.serving is not None else None
        others = [each for each in self.copies if each.alive and each is not current and not each.is_stopped]
        if sum(each.alive for each in self.copies) < MAX_COPIES and (not others or self.chance.random() < 0.3):
            others = [self._new_copy()]
        if not others:
            others = [each for each in self.copies if each.alive]
        copy = self.chance.choice(others)
        self.note("the controller chooses %s", copy.name)

        def appoint(epoch: int) -> None:
            self.note("%s serves epoch %s", copy.name, epoch)
            copy.serve(epoch, self.view, predecessor, self._started)

        self.controller.take_epoch(copy.name, appoint)

    def _started(self, copy: Copy, epoch: int, ok: bool) -> None:
        """Take a copy's report that it serves, or cannot."""
        self.note("%s %s epoch %s", copy.name, "serves" if ok else "refuses", epoch)
        if not ok or (self.serving is not None and self.serving[0] > epoch):
            return
        self.serving = epoch, copy
        for number in range(len(self.gateways.processes)):
            ms = self.chance.choice([0, 5, 200]) if not self._faulty or self.chance.random() < 0.8 else 6_000
            self.schedule.after(ms, lambda number=number: self._publish_to_gateway(number))
        self.schedule.after(self.chance.choice([0, 3_000]), self._publish_to_reconciler)

    def _publish_to_gateway(self, number: int) -> None:
        assert self.serving is not None
        self.gateways.processes[number].follow(self.serving[1])

    def _publish_to_reconciler(self) -> None:
        assert self.serving is not None
        self.reconciler.target = self.serving[1]

    # What goes wrong.

    def _trouble_begins(self) -> None:
        chance, network, zookeeper = self.chance, self.network.trouble, self.ensemble.trouble
        rough = chance.choice([0.0, 1.0, 3.0])
        network.lost_request, network.lost_reply, network.slow = 0.005 * rough, 0.01 * rough, 0.02 * rough
        rough = chance.choice([0.0, 1.0, 3.0])
        zookeeper.lost_request, zookeeper.lost_response, zookeeper.slow = 0.01 * rough, 0.02 * rough, 0.05 * rough
        rough = chance.choice([0.0, 1.0, 3.0])
        self.storage.trouble.slow, self.storage.trouble.failed = 0.01 * rough, 0.01 * rough
        calm = chance.choice([1, 1, 5])
        for mishap, every_ms in (
            (self._copy_dies, chance.choice([8_000, 30_000])),
            (self._copy_is_paused_and_replaced, chance.choice([6_000, 20_000])),
            (self._copy_is_moved, chance.choice([10_000, 30_000])),
            (self._zookeeper_is_cut_off, chance.choice([10_000, 30_000])),
            (self._controller_is_replaced, chance.choice([20_000, 60_000])),
            (self._consumer_fails, chance.choice([4_000, 12_000])),
            (self._gateway_fails, chance.choice([2_000, 10_000])),
        ):
            self._every(calm * every_ms, mishap)

    def _every(self, mean_ms: int, do: Callable[[], None]) -> None:
        def happens() -> None:
            if self._faulty:
                do()
                self._every(mean_ms, do)

        self.schedule.after(self.chance.randint(1, 2 * mean_ms), happens)

    def _copy_dies(self) -> None:
        copy = self.chance.choice([each for each in self.copies if each.alive] or self.copies)
        if copy.alive:
            copy.kill()
            lost = copy.disk.lose_power() if self.chance.random() < 0.5 else 0
            self.note("%s dies, %s bytes are lost", copy.name, lost)

    def _copy_is_paused_and_replaced(self) -> None:
        """Pause and replace the copy, which does not notice.

        It serves its clients until it learns that it is fenced.
        """
        if self.serving is not None and (copy := self.serving[1]).alive:
            ms = self.chance.choice([0, 20, 2_000, 8_000, 25_000])
            self.note("%s is paused for %s ms, and replaced", copy.name, ms)
            copy.stop(ms)
            self._fail_over(None)

    def _nodes_are_read(self, process: Process) -> None:
        """Pause at the worst moment: the next write is based on what was read."""
        if self._faulty and self.serving is not None and self.serving[1] is process and self.chance.random() < 0.03:
            self._copy_is_paused_and_replaced()
        elif self._faulty and process is self.controller and self.chance.random() < 0.1:
            self._controller_is_replaced()

    def _copy_is_moved(self) -> None:
        if self.serving is not None and (copy := self.serving[1]).alive:
            self._fail_over(copy)

    def _zookeeper_is_cut_off(self) -> None:
        clients = [each for each in self.ensemble.clients if each.process.alive]
        ms = self.chance.choice([500, 5_000, 15_000])
        if self.chance.random() < 0.2:
            self.note("ZooKeeper is down for %s ms", ms)
            self.ensemble.down_until_ms = self.schedule.now_ms + ms
        elif clients:
            client = self.chance.choice(clients)
            self.note("%s is cut off from ZooKeeper for %s ms", client.process.name, ms)
            client.cut(ms)

    def _controller_is_replaced(self) -> None:
        """Replace the controller. The old one may be paused in the middle of an operation, and resume later."""
        self.controller.stop(self.chance.choice([0, 3_000, 12_000]))
        number = int(self.controller.name.removeprefix("controller")) + 1
        self.controller = Controller(self.machine, f"controller{number}", self.ensemble, self.acknowledged)
        self._fail_over(None)

    def _consumer_fails(self) -> None:
        consumer = self.chance.choice(self.consumers)
        match self.chance.randrange(3):
            case 0:
                consumer.pause(self.chance.choice([1_000, 12_000]))
            case 1:
                consumer.crash(self.chance.choice([100, 5_000]), remember=self.chance.random() < 0.4)
            case _:
                consumer.stop(self.chance.choice([500, 10_000]))

    def _gateway_fails(self) -> None:
        number = self.chance.randrange(len(self.gateways.processes))
        gateway = self.gateways.processes[number]
        ms = self.chance.choice([20, 300, 1_500, 6_000])
        match self.chance.randrange(3):
            case 0:
                self.note("%s dies", gateway.name)
                self.gateways.replace(number)
            case 1:
                self.note("%s is paused for %s ms", gateway.name, ms)
                gateway.stop(ms)
            case _:
                self._gateway_is_cut_off(number, ms)

    def _heartbeat_is_answered(self, gateway: Process, at_the_last_moment: bool) -> None:
        """End a gateway, or cut it off, at the worst moments: no other process knows of the heartbeat."""
        if not self._faulty or self.chance.random() > (0.4 if at_the_last_moment else 0.02):
            return
        number = next(n for n, each in enumerate(self.gateways.processes) if each is gateway)
        if self.chance.random() < 0.5:
            self.note("%s dies after a heartbeat", gateway.name)
            self.schedule.after(1, lambda: self.gateways.replace(number))
        else:
            self._gateway_is_cut_off(number, self.chance.choice([500, 3_000]))

    def _gateway_is_cut_off(self, number: int, ms: int) -> None:
        """Its connection to the coordinator is held up, while a group may change."""
        gateway = self.gateways.processes[number]
        if gateway.link is not None:
            self.note("the connection of %s and %s is held up for %s ms", gateway.name, gateway.link.copy.name, ms)
            gateway.link.pipe.hold_up(ms, self.schedule.now_ms)
            self._consumer_fails()

    def _node_changed(self, kind: int, path: str, before: bytes | None, after: bytes | None) -> None:
        """Observe every change in ZooKeeper. The reconciler may be wrong for two rounds, a copy may not."""
        writer = self.ensemble.writer
        self.note("ZooKeeper: %s %s by %s", _EVENTS[kind], path, writer.name if writer else "nobody")
        if before is None or after is None or not is_registration_path(path) or not isinstance(writer, Copy):
            return
        try:
            old, new = decode_registration(path, before), decode_registration(path, after)
        except Malformed:
            return
        if (new.epoch, new.sequence) < (old.epoch, old.sequence):
            text = f"{path}: {(old.epoch, old.sequence)} is followed by {(new.epoch, new.sequence)}"
            self.machine.found(Broken(text, "a_copy_writes_only_newer_statements"))

    # How it ends.

    def _heal(self) -> None:
        """No more faults: everything must recover, and nothing acknowledged may be missing."""
        self.note("the faults stop")
        self._faulty = False
        for stranger in self.strangers:
            stranger.life += 1
        network, zookeeper, disk = self.network.trouble, self.ensemble.trouble, self.storage.trouble
        network.lost_request = network.lost_reply = network.slow = 0.0
        zookeeper.lost_request = zookeeper.lost_response = zookeeper.slow = 0.0
        disk.slow = disk.failed = 0.0
        for consumer in self.consumers:
            consumer.wake()
        until_ms = self.schedule.now_ms + HEALING_MS
        wrong = "nothing was looked at"
        while wrong:
            for _ in range(100):
                self._step()
            wrong = "; ".join(self._unwell())
            if wrong and self.schedule.now_ms > until_ms:
                raise Broken(wrong, "everything_gets_well")
        self._fetch_everything()

    def _unwell(self) -> Iterator[str]:
        copy = self.serving[1] if self.serving is not None else None
        core = copy.core if copy is not None else None
        if core is None or any(each is not copy for each in [*self.gateways.targets, self.reconciler.target]):
            yield "the partition is not served, or not everybody knows by whom"
            return
        for group_id in sorted({consumer.group for consumer in self.consumers}):
            consumers = [consumer for consumer in self.consumers if consumer.group == group_id]
            group = core.coordinator.groups.get(GroupId(group_id))
            if group is None or group.state is not GroupState.STABLE:
                yield f"{group_id} is {group and group.state}"
            elif {c.member_id for c in consumers if c.stage is Stage.CONSUMING} != {
                str(each) for each in group.members
            }:
                yield f"{group_id} has members {[*group.members]}"
        yield from unlike(self.server, core.registrations())
        wanted = sorted(str(each.number) for each in self.copies if each.alive)
        found = sorted(self.server.nodes[BROKER_IDS].children)
        if found != wanted:
            yield f"ephemeral nodes of {found}, alive are {wanted}"

    def _fetch_everything(self) -> None:
        """From a copy that loads the log anew: every response is compared with what was acknowledged."""
        assert self.serving is not None
        before, copy = self.serving
        copy.kill()
        copy.disk.lose_power()
        until_ms = self.schedule.now_ms + HEALING_MS
        while self.serving[0] == before or any(each is not self.serving[1] for each in self.gateways.targets):
            self._step()
            if self.schedule.now_ms > until_ms:
                raise Broken("no copy serves the partition", "everything_gets_well")
        places = sorted(self.acknowledged.commits)
        answered: list[str] = []

        def query(place: tuple[str, str, int]) -> None:
            group, topic, partition = place
            body = fetch_body(7, group, [(topic, partition)])

            def then(response: Any) -> None:
                if (
                    response is None
                    or response.error_code
                    or any(p.error_code for t in response.topics for p in t.partitions)
                ):
                    self.schedule.after(100, lambda: query(place))
                else:
                    answered.append(group)

            self.network.send("checker", "10.0.0.1", True, OFFSET_FETCH, 7, body, then, 3_000)

        for place in places:
            query(place)
        while len(answered) < len(places):
            self._step()
            if self.schedule.now_ms > until_ms:
                raise Broken(f"{len(answered)} of {len(places)} answered", "offsets_can_be_fetched")
