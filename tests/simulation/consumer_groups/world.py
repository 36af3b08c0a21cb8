"""The world of one seed: groups of KIP-848, classic ones, and some that have both, with what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from muster.actors.group.codec import adapters
from muster.actors.group.config import GroupConfig
from muster.actors.group.consumer.topics import TopicInfo
from muster.actors.group.messages import JoinGroup
from muster.actors.group.state import GroupState
from muster.actors.group.types import GroupId
from tests.simulation.actor import Actor, Step
from tests.simulation.base_world import STEPS, BaseWorld
from tests.simulation.consumer import Consumer, Stage
from tests.simulation.consumer_groups.member import ConsumerMember, Partition, id_of
from tests.simulation.consumer_groups.rules import Rules, unwell
from tests.simulation.network import Network
from tests.simulation.planted.broken import Broken
from tests.simulation.view import View

SESSION_MS = 5_000
Anyone = ConsumerMember | Consumer


class ActorWithTopics(Actor):
    """Knows the topics of the cluster from the beginning of each life."""

    topics: dict[str, int]
    version = 0

    def start(self, config: GroupConfig | None = None) -> None:
        super().start(config)
        self.publish()

    def publish(self) -> None:
        """The topics, as they are now."""
        self.version += 1
        if self.core is not None:
            known = {name: TopicInfo(id_of(name), count) for name, count in self.topics.items()}
            self.core.topics_known(known, self.version)


class World(BaseWorld):
    def __init__(self, seed: int, *, trace_all: bool = False) -> None:
        super().__init__(seed, trace_all=trace_all)
        self.topics = {"t0": 3, "t1": 2, "u0": 1}
        self.actor = ActorWithTopics(self.schedule, self.chance, self._new_config(), self._observe, self.note)
        self.actor.topics = self.topics
        self.network = Network(self.schedule, self.chance, self.actor)
        self.view = View(self.actor, self.promises)
        self.rules = Rules(self.view)
        self.clients: list[Anyone] = [*self._new_clients()]

    def _new_config(self) -> GroupConfig:
        chance = self.chance
        return GroupConfig(
            group_initial_rebalance_delay_ms=chance.choice([0, 500]),
            group_consumer_session_timeout_ms=SESSION_MS,
            group_consumer_heartbeat_interval_ms=1_000,
            group_consumer_assignment_interval_ms=chance.choice([0, 300, 1_000]),
            group_consumer_regex_refresh_interval_ms=chance.choice([10_000, 600_000]),
            group_consumer_migration_policy=chance.choice(["bidirectional", "bidirectional", "upgrade"]),
            attribution_simple_ttl_ms=10_000,
            rebalance_stuck_ms=chance.choice([500, 30_000]),
        )

    def _new_clients(self) -> Iterator[Anyone]:
        """A consumer group, perhaps one with both protocols, and perhaps a classic one."""
        chance = self.chance
        for group, classic in (("k0", 0.0), ("k1", 0.5), ("g0", 1.0))[: chance.randint(1, 3)]:
            for number in range(chance.randint(1, 4)):
                instance = f"{group}-i{number}" if chance.random() < 0.3 else None
                if chance.random() < classic:
                    topics = chance.choice([("t0",), ("t0", "t1")])
                    consumer = Consumer(self, f"{group}-c{number}", group, instance=instance, topics=topics)
                    consumer.commits_late = False
                    yield consumer
                else:
                    yield ConsumerMember(self, f"{group}-m{number}", group, instance=instance, given=self._given)

    # Running.

    def run(self, steps: int = STEPS) -> None:
        """The whole history. Raises Broken."""
        self.actor.start()
        for client in self.clients:
            client.later(self.chance.randint(0, 6_000), client.start)
        self._trouble_begins()
        while self.schedule.steps < steps:
            self.schedule.step()
        self._heal()

    def _observe(self, step: Step) -> None:
        """Called for every step of the coordinator, before its responses leave."""
        self.core_steps += 1
        self._note_step(step)
        request = step.received.request if step.received else None
        if isinstance(request, JoinGroup):
            longest = self.promises.longest_rebalance_ms
            longest[request.group_id] = max(longest[request.group_id], request.rebalance_timeout_ms)
        self.promises.before_checks(step, self.view.log, self.view.core.registrations)
        self.rules.check(step)

    # What clients know.

    def _holdings(self, group: str) -> dict[str, frozenset[Partition]]:
        """What the clients use that are members of the consumer group, by member id."""
        core = self.actor.core
        known = core.consumer_groups.get(GroupId(group)) if core is not None else None
        members = known.members if known else {}
        return {
            each.member_id: holds(each) for each in self.clients if each.group == group and each.member_id in members
        }

    def _given(self, member: ConsumerMember) -> None:
        """It begins to use partitions: no other member may."""
        holdings = self._holdings(member.group)
        mine = holdings.pop(member.member_id, frozenset())  # none if it was removed, and does not know that yet
        for other, held in holdings.items():
            if held & mine:
                raise Broken(f"{member.name} uses {held & mine}, and so does {other}", "no_two_use_a_partition")

    def refused(self, member: ConsumerMember, error: ErrorCode) -> None:
        """It has to join again. It must have been removed, or more than one response to it was lost in a row."""
        if member.epoch and member.lost <= 2 and (member.group, member.member_id) not in self.rules.removed:
            raise Broken(f"{member.name} gets {error} at epoch {member.epoch}", "no_member_is_fenced_without_a_reason")

    # What goes wrong.

    def _trouble_begins(self) -> None:
        """Requests of one client do not overtake each other, as on one connection: a late heartbeat that says that
        the member has nothing would give away what it has got since."""
        chance, trouble, faults = self.chance, self.network.trouble, self.actor.faults
        rough = chance.choice([0.0, 0.5, 1.0, 3.0])
        trouble.lost_request, trouble.lost_reply, trouble.slow = 0.005 * rough, 0.01 * rough, 0.02 * rough
        rough = chance.choice([0.0, 0.5, 1.0, 3.0])
        faults.slow_write, faults.stuck_write = 0.03 * rough, 0.001 * rough
        faults.failed_write, faults.refused_write = 0.004 * rough, 0.01 * rough
        for mishap, every_ms in (
            (self._actor_ends, chance.choice([3_000, 15_000, 10**7])),
            (self._client_fails, chance.choice([4_000, 12_000])),
            (self._topic_grows, chance.choice([8_000, 30_000])),
            (self._subscription_changes, chance.choice([8_000, 30_000])),
            (self._group_is_deleted, chance.choice([10_000, 10**7])),
        ):
            self._every(every_ms, mishap)

    def _actor_ends(self) -> None:
        end = self.chance.choice([self.actor.die, self.actor.die, self.actor.resign])
        end(self.chance.choice([0, 100, 2_000]), self._new_config() if self.chance.random() < 0.2 else None)

    def _client_fails(self) -> None:
        chance = self.chance
        client = chance.choice(self.clients)
        match chance.randrange(4):
            case 0:
                client.pause(chance.choice([1_000, 3_000, 12_000]))
            case 1:
                away_ms = chance.choice([100, 3_000, 12_000])
                client.crash(away_ms, remember=False) if isinstance(client, Consumer) else client.crash(away_ms)
            case _:
                client.stop(chance.choice([500, 3_000, 12_000]))

    def _topic_grows(self) -> None:
        name = self.chance.choice(["t0", "t1", "t2", "u0", "u1"])
        if self.topics.get(name, 0) < 5:
            self.topics[name] = self.topics.get(name, 0) + 1
            self.note("%s has %s partitions", name, self.topics[name])
            self.actor.publish()

    def _subscription_changes(self) -> None:
        members = [each for each in self.clients if isinstance(each, ConsumerMember)]
        if members:
            self.chance.choice(members).change_subscription()

    def _group_is_deleted(self) -> None:
        group = self.chance.choice(self.clients).group
        body = {"groups_names": [group]}
        self.network.send("admin", "10.0.0.1", True, adapters.DELETE_GROUPS, 2, body, lambda response: None, 3_000)

    # How it ends.

    def _heal(self) -> None:
        """No more faults: every group gets Stable, and its members use all partitions."""
        self._stop_faults(self.network.trouble, self.actor.faults)
        for client in self.clients:
            client.wake()
        groups = sorted({each.group for each in self.clients})
        self._until_well(lambda: (why for group in groups for why in self._unwell(group)))

    def _unwell(self, group: str) -> Iterator[str]:
        clients = [each for each in self.clients if each.group == group]
        core = self.actor.core
        if core is None or not self.actor.serves:
            yield "the actor is down"
        elif not all(is_settled(each) for each in clients):
            yield f"{[each.name for each in clients if not is_settled(each)]} of {group} are not settled"
        elif found := core.consumer_groups.get(GroupId(group)):
            wanted = {each.member_id: wants(each) for each in clients}
            yield from unwell(found, {each.member_id: holds(each) for each in clients}, wanted, self.topics)
        elif any(isinstance(each, ConsumerMember) for each in clients):
            yield f"{group} is no consumer group"
        else:
            classic = core.groups[GroupId(group)]
            if classic.state is not GroupState.STABLE or classic.members.keys() != {each.member_id for each in clients}:
                yield f"{group} is {classic.state} with {[*classic.members]}"


def holds(client: Anyone) -> frozenset[Partition]:
    """What it uses: an eager consumer gives up everything before it joins."""
    if isinstance(client, ConsumerMember):
        return client.holds
    return frozenset(client.owned) if client.stage is Stage.CONSUMING else frozenset()


def wants(client: Anyone) -> frozenset[str]:
    return client.wanted if isinstance(client, ConsumerMember) else frozenset(client.topics)


def is_settled(client: Anyone) -> bool:
    return client.is_settled if isinstance(client, ConsumerMember) else client.stage is Stage.CONSUMING
