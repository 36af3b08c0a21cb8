"""The world of one seed: its clients, its faults, and their times."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from muster.actors.group.config import GroupConfig
from muster.actors.group.messages import SyncGroup, WriteTxnMarker
from muster.actors.group.state import GroupState
from muster.actors.group.types import GroupId
from tests.simulation.actor import Actor, Step
from tests.simulation.base_world import STEPS, BaseWorld
from tests.simulation.consumer import Consumer, Stage
from tests.simulation.network import Network
from tests.simulation.planted.broken import Broken
from tests.simulation.rules.invariants import check_all
from tests.simulation.rules.judge import verdict
from tests.simulation.strangers import Administrator, Liar, Producer, SimpleConsumer, Stranger
from tests.simulation.view import View


class World(BaseWorld):
    def __init__(self, seed: int, *, trace_all: bool = False) -> None:
        super().__init__(seed, trace_all=trace_all)
        self.topics = {"t0": 3, "t1": 2}
        self.actor = Actor(self.schedule, self.chance, self._new_config(), self._observe, self.note)
        self.view = View(self.actor, self.promises)
        self.network = Network(self.schedule, self.chance, self.actor)
        self.consumers = [*self._new_consumers()]
        self.strangers = [*self._new_strangers()]

    # Who is there.

    def _new_config(self) -> GroupConfig:
        chance = self.chance
        return GroupConfig(
            group_max_size=chance.choice([2, 3, 100, 100]),
            group_initial_rebalance_delay_ms=chance.choice([0, 500, 3_000]),
            offsets_retention_minutes=chance.choice([1, 1, 10_080]),
            offsets_retention_check_interval_ms=chance.choice([5_000, 20_000]),
            attribution_simple_ttl_ms=chance.choice([10_000, 600_000]),
        )

    def _new_consumers(self) -> Iterator[Consumer]:
        chance = self.chance
        for group in ("g0", "g1")[: chance.randint(1, 2)]:
            kind = chance.choice(["consumer", "consumer", "consumer", "connect"])
            topics = chance.choice([("t0",), ("t0", "t1")])
            for number in range(chance.randint(1, 4)):
                instance = f"{group}-i{number}" if chance.random() < 0.4 else None
                yield Consumer(self, f"{group}-c{number}", group, instance=instance, topics=topics, protocol_type=kind)

    def _new_strangers(self) -> Iterator[Stranger]:
        chance = self.chance
        groups = sorted({consumer.group for consumer in self.consumers})
        for number in range(chance.randint(0, 2)):
            yield Liar(self, f"liar{number}", groups, chance.choice([300, 1_500, 4_000]))
        yield SimpleConsumer(self, "simple", ["s0", "", *groups[:1]], chance.choice([1_500, 4_000]))
        for number in range(chance.choice([0, 1, 3])):
            yield Producer(
                self, f"producer{number}", ["s0", *groups], chance.choice([800, 3_000]), 1_000 + number, self.mark
            )
        yield Administrator(self, "admin", ["s0", *groups], chance.choice([2_000, 6_000]))

    def mark(self, sender: str, request: WriteTxnMarker, done: Callable[[bool], None]) -> None:
        """Markers are written by the transaction coordinator, which the network does not separate from the actor."""
        self.schedule.after(self.chance.randint(0, 30), lambda: self.actor.mark(sender, request, done))

    # Running.

    def run(self, steps: int = STEPS) -> None:
        """Run the whole history. Raises Broken."""
        self.actor.start()
        for consumer in self.consumers:
            consumer.later(self.chance.randint(0, 4_000), consumer.start)
        for stranger in self.strangers:
            stranger.start()
        self._trouble_begins()
        while self.schedule.steps < steps:
            self.schedule.step()
        self._heal()
        self._empty()

    def _observe(self, step: Step) -> None:
        """Observe every step of the coordinator, before its responses leave."""
        self.core_steps += 1
        self._note_step(step)
        if step.received is not None and not step.loading:
            step.received.expected = verdict(step.received.request, step.before)
            self._note_dishonesty(step)
        self.promises.before_checks(step, self.view.log, self.view.core.registrations)
        check_all(self.view, step)
        self.promises.after_checks(step)
        self.view.walk_due_ms = self.view.expiry_walk_ms()

    def _note_dishonesty(self, step: Step) -> None:
        received = step.received
        assert received is not None
        if received.honest or not isinstance(received.request, SyncGroup) or received.expected is not None:
            return
        group = step.before[received.request.group_id]
        if group.leader == received.request.member_id:
            self.promises.dishonest.add((self.view.incarnation(received.request.group_id), group.generation))

    # What goes wrong.

    def _trouble_begins(self) -> None:
        chance, trouble, faults = self.chance, self.network.trouble, self.actor.faults
        rough = chance.choice([0.0, 0.5, 1.0, 3.0])
        trouble.lost_request = 0.005 * rough
        trouble.lost_reply = 0.01 * rough
        trouble.repeated = 0.02 * rough
        trouble.slow = 0.02 * rough
        rough = chance.choice([0.0, 0.5, 1.0, 3.0])
        faults.slow_write = 0.03 * rough
        faults.stuck_write = 0.001 * rough
        faults.failed_write = 0.004 * rough
        faults.refused_write = 0.004 * rough
        for mishap, every_ms in (
            (self._actor_dies, chance.choice([8_000, 30_000, 10**7])),
            (self._actor_stalls, chance.choice([20_000, 10**7])),
            (self._consumer_fails, chance.choice([4_000, 12_000])),
            (self._topic_is_deleted, chance.choice([20_000, 10**7])),
        ):
            self._every(every_ms, mishap)

    def _actor_dies(self) -> None:
        chance = self.chance
        config = self._new_config() if chance.random() < 0.3 else None
        end = chance.choice([self.actor.die, self.actor.die, self.actor.resign])
        end(chance.choice([0, 100, 2_000, 12_000]), config)

    def _actor_stalls(self) -> None:
        if self.actor.serves:
            self.actor.stall(self.chance.choice([100, 3_000, 12_000]))

    def _consumer_fails(self) -> None:
        chance = self.chance
        consumer = chance.choice(self.consumers)
        match chance.randrange(5):
            case 0:
                consumer.pause(chance.choice([1_000, 5_000, 20_000]))
            case 1 | 2:
                consumer.crash(chance.choice([100, 3_000, 15_000]), remember=chance.random() < 0.4)
            case 3:
                consumer.stop(chance.choice([500, 5_000, 20_000]))
            case _:
                for each in self.consumers:
                    if each.group == consumer.group:
                        each.crash(chance.choice([500, 20_000, 20_000]), remember=False)

    def _topic_is_deleted(self) -> None:
        topic = self.chance.choice(["t0", "t1"])
        self.actor.topics_deleted(frozenset({topic}))

    # How it ends.

    def _heal(self) -> None:
        """No more faults, and all clients are honest: now every group must recover.

        Requests sent before may still arrive, and dead members must expire first.
        """
        self._stop_faults(self.network.trouble, self.actor.faults)
        for stranger in self.strangers:
            stranger.life += 1
            if isinstance(stranger, Producer):
                stranger.abort()
        for consumer in self.consumers:
            consumer.wake()
        self._until_well(self._unwell)

    def _unwell(self) -> Iterator[str]:
        """Every group with live consumers is Stable, they are its members, and they own all partitions.

        Consumers beyond ``group.max.size`` are turned away; static members that missed a rebalance may exceed that
        size, as in Kafka. What a liar assigned in the leader's name stays until the next rebalance.
        """
        if not self.actor.serves:
            yield "the actor is down"
            return
        limit = self.actor.config.group_max_size
        for group_id in sorted({consumer.group for consumer in self.consumers}):
            consumers = [consumer for consumer in self.consumers if consumer.group == group_id]
            group = self.actor.shots.get(GroupId(group_id))
            if group is None or group.state is not GroupState.STABLE:
                yield f"{group_id} is {group and group.state}"
                continue
            current = [c for c in consumers if c.stage is Stage.CONSUMING and c.generation == group.generation]
            if len(current) < min(limit, len(consumers)) or {c.member_id for c in current} != group.members.keys():
                yield f"{[c.name for c in current]} consume, members are {[*group.members]}"
            if (self.view.incarnation(GroupId(group_id)), group.generation) in self.promises.dishonest:
                continue
            owned = sorted(partition for consumer in current for partition in consumer.owned)
            wanted = sorted((t, i) for t in consumers[0].topics for i in range(self.topics[t]))
            if owned != wanted:
                yield f"{group_id} owns {owned}, should own {wanted}"

    def _empty(self) -> None:
        """All clients leave, and a last actor loads the log: only offsets may remain."""
        self.note("everybody goes")
        for consumer in self.consumers:
            consumer.stop(None)
        self._until_quiet()
        self.actor.die(0)
        self._until_quiet()
        for group_id, group in self.actor.shots.items():
            if group.state is not GroupState.EMPTY:
                raise Broken(f"{group_id} is {group.state} with {group.members}", "groups_get_empty")
        if self.actor.waiting:
            raise Broken(f"{self.actor.waiting} wait", "no_request_waits_too_long")
        members = [r for r in self.view.core.registrations() if r.kind.value == "member"]
        if members:
            raise Broken(f"registered: {members}", "registrations_agree_with_members")
        if len(self.view.timers._armed) > 1 + len(self.view.core.registrations()):
            raise Broken(f"armed: {self.view.timers._armed}", "every_timer_has_an_owner")

    def _until_quiet(self) -> None:
        until_ms = self.schedule.now_ms + 60_000
        while self.schedule.now_ms < until_ms and self.schedule.step():
            pass
