"""The world of one seed: groups of KIP-848, classic ones, and some that have both, with what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from muster.actors.group.codec import adapters
from muster.actors.group.codec.consumer_protocol import owned_partitions
from muster.actors.group.config import GroupConfig
from muster.actors.group.consumer.topics import TopicInfo
from muster.actors.group.events import GroupConverted, GroupType, MemberExpired
from muster.actors.group.messages import JoinGroup, LeaveGroup
from muster.actors.group.state import GroupState
from muster.actors.group.types import GroupId, MemberId
from tests.simulation.actor import Actor, Step
from tests.simulation.base_world import STEPS, BaseWorld
from tests.simulation.consumer_groups.classic_member import ClassicMember
from tests.simulation.consumer_groups.member import ConsumerMember, Partition, id_of
from tests.simulation.consumer_groups.rules import Rules, unwell
from tests.simulation.network import Network
from tests.simulation.planted.broken import Broken
from tests.simulation.view import View

SESSION_MS = 5_000
Anyone = ConsumerMember | ClassicMember


class ActorWithTopics(Actor):
    """Knows the topics of the cluster from the beginning of each life."""

    topics: dict[str, int]
    version = 0

    def start(self, config: GroupConfig | None = None) -> None:
        super().start(config)
        self.publish()

    def publish(self) -> None:
        """Publish the topics, as they are now."""
        self.version += 1
        if self.core is not None:
            known = {name: TopicInfo(id_of(name), count) for name, count in self.topics.items()}
            self.core.topics_known(known, self.version)


NAMES = ("t0", "t1", "t2", "u0", "u1")
"""Names of topics; some are created later."""


class World(BaseWorld):
    def __init__(self, seed: int, *, trace_all: bool = False) -> None:
        super().__init__(seed, trace_all=trace_all)
        self.topics = {"t0": 3, "t1": 2, "u0": 1}
        self.actor = ActorWithTopics(self.schedule, self.chance, self._new_config(), self._observe, self.note)
        self.actor.topics = self.topics
        self.network = Network(self.schedule, self.chance, self.actor)
        self.view = View(self.actor, self.promises)
        self.rules = Rules(self.view)
        self.cooperative = {group: self.chance.random() < 0.5 for group in ("k0", "k1", "g0")}
        """Whether the members with the classic protocol are, by group: their assignors must be the same."""
        self.clients: list[Anyone] = [*self._new_clients()]
        self.rivals: list[Anyone] = []
        """Processes with the instance id of a client."""
        self._overtaken: set[tuple[str, str]] = set()
        """Classic members, by group, that use what the group does not count as theirs, until they have synced again."""

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
        """Yield a consumer group, perhaps one with both protocols, and perhaps a classic one."""
        chance = self.chance
        for group, classic in (("k0", 0.0), ("k1", 0.5), ("g0", 1.0))[: chance.randint(1, 3)]:
            for number in range(chance.randint(1, 4)):
                instance = f"{group}-i{number}" if chance.random() < 0.3 else None
                yield self._new_client(str(number), group, instance, is_classic=chance.random() < classic)

    def _new_client(self, name: str, group: str, instance: str | None, *, is_classic: bool) -> Anyone:
        if is_classic:
            cooperative = self.cooperative[group]
            return ClassicMember(
                self, f"{group}-c{name}", group, instance=instance, cooperative=cooperative, given=self._given
            )
        return ConsumerMember(self, f"{group}-m{name}", group, instance=instance, given=self._given)

    # Running.

    def run(self, steps: int = STEPS) -> None:
        """Run the whole history. Raises Broken."""
        self.actor.start()
        for client in self.clients:
            client.later(self.chance.randint(0, 6_000), client.start)
        self._trouble_begins()
        while self.schedule.steps < steps:
            self.schedule.step()
        self._heal()

    def _observe(self, step: Step) -> None:
        """Observe every step of the coordinator, before its responses leave."""
        self.core_steps += 1
        self._note_step(step)
        self._note_rare(step)
        self._note_overtaken(step)
        request = step.received.request if step.received else None
        if isinstance(request, JoinGroup):
            longest = self.promises.longest_rebalance_ms
            longest[request.group_id] = max(longest[request.group_id], request.rebalance_timeout_ms)
        self.promises.before_checks(step, self.view.log, self.view.core.registrations)
        self.rules.check(step)

    def _note_rare(self, step: Step) -> None:
        """Count events that a run must reach (``reaches`` in worlds.py)."""
        for event in step.outcome.events:
            if isinstance(event, MemberExpired):
                self.events[event.cause.value] += 1
        for received, response in step.answered:
            error = getattr(response, "error_code", None)
            if error in (ErrorCode.fenced_instance_id, ErrorCode.unreleased_instance_id):
                self.events[error.name] += 1
            if isinstance(received.request, JoinGroup) and owned_partitions(received.request.protocols[0][1]):
                self.events["joins with partitions"] += 1
            if isinstance(received.request, LeaveGroup) or getattr(received.request, "member_epoch", 0) == -1:
                self.events["leaves"] += 1

    def _note_overtaken(self, step: Step) -> None:
        """Note whom the group has taken partitions from that they still use, as Kafka does.

        A removed member that joins with its member id is as a new one. A group that becomes a classic one gives its
        members their targets at once. A classic group that is converted in a rebalance may have lost its assignments;
        converted later, it counts as given up what a cooperative member is still about to give up.
        """
        for event in step.outcome.events:
            if isinstance(event, MemberExpired):
                self._overtaken.add((event.group, event.member_id))
            if not isinstance(event, GroupConverted):
                continue
            before = step.before.get(event.group)
            is_stable = event.to is GroupType.CONSUMER and before is not None and before.state is GroupState.STABLE
            assigned = {who.member_id: partitions for who, partitions in event.assignments}
            for each in (*self.clients, *self.rivals):
                is_member = isinstance(each, ClassicMember) and each.group == event.group
                if is_stable and each.is_settled:
                    continue
                if is_member and not each.holds <= assigned.get(MemberId(each.member_id), frozenset()):
                    self._overtaken.add((each.group, each.member_id))

    # What clients know.

    def _holdings(self, group: str) -> dict[str, frozenset[Partition]]:
        """Return the partitions in use by clients that are members of the consumer group, by member id."""
        core = self.actor.core
        known = core.consumer_groups.get(GroupId(group)) if core is not None else None
        members = known.members if known else {}
        clients = (*self.clients, *self.rivals)
        return {
            each.member_id: each.holds
            for each in clients
            if each.group == group and each.member_id in members and (group, each.member_id) not in self._overtaken
        }

    def _given(self, member: Anyone) -> None:
        """Check a member that begins to use partitions: no other member may."""
        self._overtaken.discard((member.group, member.member_id))
        holdings = self._holdings(member.group)
        mine = holdings.pop(member.member_id, frozenset())  # none if it was removed, and does not know that yet
        for other, held in holdings.items():
            if held & mine:
                raise Broken(f"{member.name} uses {held & mine}, and so does {other}", "no_two_use_a_partition")

    def refused(self, member: ConsumerMember, error: ErrorCode) -> None:
        """Check the refusal of a member, which joins again.

        It was removed, or more than one response to it was lost in a row.
        """
        if member.epoch and member.lost <= 2 and (member.group, member.member_id) not in self.rules.removed:
            raise Broken(f"{member.name} gets {error} at epoch {member.epoch}", "no_member_is_fenced_without_a_reason")

    # What goes wrong.

    def _trouble_begins(self) -> None:
        """Begin the trouble. Requests of one client do not overtake each other, as on one connection.

        A late heartbeat that says that the member has nothing would give away what it has got since.
        """
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
            (self._rival_appears, chance.choice([10_000, 10**7])),
            (self._instance_is_removed, chance.choice([15_000, 10**7])),
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
                client.crash(away_ms, remember=False) if isinstance(client, ClassicMember) else client.crash(away_ms)
            case _:
                client.stop(chance.choice([500, 3_000, 12_000]))

    def _topic_grows(self) -> None:
        name = self.chance.choice(NAMES)
        if self.topics.get(name, 0) < 5:
            self._grow(name)

    def _grow(self, name: str) -> None:
        self.topics[name] = self.topics.get(name, 0) + 1
        self.note("%s has %s partitions", name, self.topics[name])
        self.actor.publish()

    def _subscription_changes(self) -> None:
        self.chance.choice(self.clients).change_subscription()

    def _group_is_deleted(self) -> None:
        """Or not, if it has members: an administrator may stop its clients before, and start them after it."""
        group = self.chance.choice(self.clients).group
        body = {"groups_names": [group]}

        def delete() -> None:
            self.network.send("admin", "10.0.0.1", True, adapters.DELETE_GROUPS, 2, body, lambda response: None, 3_000)

        stops = self.chance.random() < 0.7
        if stops:
            for client in self.clients:
                if client.group == group:
                    client.stop(6_000)
        self.schedule.after(3_000 if stops else 0, delete)

    def _rival_appears(self) -> None:
        """For a while another process has the instance id of a client."""
        if client := self._any_static():
            name = f"{len(self.rivals)}r"
            rival = self._new_client(name, client.group, client.instance, is_classic=self.chance.random() < 0.4)
            self.rivals.append(rival)
            rival.start()
            self.schedule.after(self.chance.choice([1_000, 4_000, 12_000]), lambda: rival.stop(None))

    def _instance_is_removed(self) -> None:
        """By an administrator, who knows only its instance id."""
        if client := self._any_static():
            leaving = {"member_id": "", "group_instance_id": client.instance, "reason": "removed"}
            body = {"group_id": client.group, "members": [leaving]}
            self.network.send("admin", "10.0.0.1", True, adapters.LEAVE_GROUP, 5, body, lambda response: None, 3_000)

    def _any_static(self) -> Anyone | None:
        static = [each for each in self.clients if each.instance is not None]
        return self.chance.choice(static) if static else None

    # How it ends.

    def _heal(self) -> None:
        """No more faults: every group gets Stable, and its members use all partitions, also of other topics then."""
        self._stop_faults(self.network.trouble, self.actor.faults)
        for rival in self.rivals:
            rival.stop(None)
        for client in self.clients:
            client.wake()
        groups = sorted({each.group for each in self.clients})
        steps = [lambda: None, self._all_topics_grow, *(client.change_subscription for client in self.clients)]
        for step in steps:
            step()
            self._until_well(lambda: (why for group in groups for why in self._unwell(group)))

    def _all_topics_grow(self) -> None:
        for name in NAMES:
            self._grow(name)

    def _unwell(self, group: str) -> Iterator[str]:
        clients = [each for each in self.clients if each.group == group]
        core = self.actor.core
        if core is None or not self.actor.serves:
            yield "the actor is down"
        elif not all(each.is_settled for each in clients):
            yield f"{[each.name for each in clients if not each.is_settled]} of {group} are not settled"
        elif found := core.consumer_groups.get(GroupId(group)):
            wanted = {each.member_id: each.wanted for each in clients}
            yield from unwell(found, {each.member_id: each.holds for each in clients}, wanted, self.topics)
        elif any(isinstance(each, ConsumerMember) for each in clients):
            yield f"{group} is no consumer group"
        else:
            classic = core.groups[GroupId(group)]
            if classic.state is not GroupState.STABLE or classic.members.keys() != {each.member_id for each in clients}:
                yield f"{group} is {classic.state} with {[*classic.members]}"
