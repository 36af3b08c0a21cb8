"""The cases: which clients share what, and what happens to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from benchmarks.attribution import simple_cases
from benchmarks.attribution.stage import PARTITIONS, Stage

LIBRARY_IDS = ("rdkafka", "sarama", "kgo", "kafkajs", "kafka-python-2.2.15", "aiokafka-0.12.0", "consumer-1")
"""The client.id that libraries send by default: librdkafka, sarama, franz-go, kafkajs, kafka-python, aiokafka, and
Java's before it included the group (Kafka 2.x)."""
_BEGIN_WITHIN, _STRIDE = 0.9, 3
_LATER = 0.4
"""Share of the records at which a group starts if it has read before."""


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    about: str
    run: Callable[[Stage], Awaitable[None]]
    is_alone: bool = False
    """Whether the case does something to Muster that would affect other cases."""
    may_swap: bool = False
    """Whether nothing distinguishes the groups: their totals must agree to within the difference between their
    positions."""


async def unique_ids(stage: Stage) -> None:
    topics = [await stage.topic() for _ in range(3)]
    for group in range(stage.scale.groups):
        team = stage.team(f"group-{group}", topics[group % len(topics)])
        for number in range(stage.scale.members):
            stage.member(team, stage.host(), f"service-{group}-{number}")
    await stage.read_all()


async def library_ids(stage: Stage) -> None:
    for client_id in LIBRARY_IDS:
        topic, shared_host = await stage.topic(), stage.host()
        for name in ("orders", "billing"):
            team = stage.team(f"{name}-{client_id}", topic)
            for host in (shared_host, stage.host()):
                stage.member(team, host, client_id)
            await stage.begin_at(team, _LATER if name == "billing" else 0.05)
    await stage.read_all()


async def different_topics(stage: Stage) -> None:
    for pair in range(stage.scale.pairs):
        host = stage.host()
        for name in ("a", "b"):
            stage.member(stage.team(f"{name}-{pair}", await stage.topic()), host, "rdkafka")
    await stage.read_all()


async def overlapping(stage: Stage) -> None:
    for pair in range(stage.scale.pairs):
        host = stage.host()
        topic, *assignments = await stage.shared_topic()
        for name, partitions in zip(("a", "b"), assignments, strict=True):
            team = stage.team(f"{name}-{pair}", topic, partitions)
            stage.member(team, host, "rdkafka")
            if pair % 2:
                await stage.begin_at(team, _LATER if name == "b" else 0.05)
    await stage.read_all()


async def identical_apart(stage: Stage) -> None:
    for pair in range(stage.scale.pairs):
        host, topic = stage.host(), await stage.topic()
        for name in ("a", "b"):
            team = stage.team(f"{name}-{pair}", topic)
            stage.member(team, host, "rdkafka")
            await stage.begin_at(team, _LATER if name == "b" else 0.05)
    await stage.read_all()


async def identical_together(stage: Stage) -> None:
    for pair in range(stage.scale.pairs):
        host, topic = stage.host(), await stage.topic()
        for name in ("a", "b"):
            stage.member(stage.team(f"{name}-{pair}", topic), host, "rdkafka")
    async with stage.working(), stage.feeding():
        await asyncio.sleep(stage.scale.paired_s)


async def nat(stage: Stage) -> None:
    """Read each topic by two groups with several members each, at different positions."""
    host = stage.host()
    for number in range(stage.scale.groups // 2):
        topic = await stage.topic()
        for name in ("a", "b"):
            team = stage.team(f"{name}-{number}", topic)
            for _ in range(stage.scale.members):
                stage.member(team, host, LIBRARY_IDS[number % 2])
            await stage.begin_at(team, _LATER if name == "b" else 0.05)
    await stage.read_all()


async def simple_consumers(stage: Stage) -> None:
    """Read as simple consumers: alone, beside a member with the same id, two of one group, and one without a group."""
    halves = (range(PARTITIONS // 2), range(PARTITIONS // 2, PARTITIONS))
    for number in range(stage.scale.pairs):
        topic = await stage.topic()
        team = stage.team(f"simple-{number}", topic)
        for half in halves:
            stage.simple(team, stage.host(), "rdkafka", half, from_committed=bool(number % 2))
        host = stage.host()
        beside = stage.team(f"beside-{number}", topic)
        stage.simple(beside, host, "rdkafka", range(PARTITIONS), from_committed=bool(number % 2))
        stage.member(stage.team(f"member-{number}", await stage.topic()), host, "rdkafka")
    stage.nobody(stage.team(None, await stage.topic()), stage.host(), "spark-executor")
    await stage.read_all()


async def readers_beside(stage: Stage) -> None:
    """Read as a member does, without a group, from its host and with its client id."""
    places = [(stage.host(), await stage.topic()) for _ in range(stage.scale.pairs)]
    for number, (host, topic) in enumerate(places):
        stage.member(stage.team(f"group-{number}", topic), host, "rdkafka")
    async with stage.working(), stage.feeding():
        for host, topic in places:
            stage.nobody(stage.team(None, topic), host, "rdkafka").start()
        await asyncio.sleep(stage.scale.paired_s)


async def in_turn(stage: Stage) -> None:
    """Read as cron jobs, CLIs and test suites do: each group starts when the previous one has left, without a pause."""
    await _lane(stage, "job", await stage.topic(), stage.host())


async def in_lanes(stage: Stage) -> None:
    """Run many such sequences at once, from one host and on one topic."""
    topic, host = await stage.topic(batches=2 * stage.scale.batches), stage.host()
    lanes = range(stage.scale.lanes)
    await asyncio.gather(*(_lane(stage, f"lane-{lane}", topic, host, lane, len(lanes)) for lane in lanes))


async def _lane(stage: Stage, name: str, topic: str, host: str, lane: int = 0, lanes: int = 1) -> None:
    await asyncio.sleep(lane / lanes)
    for turn in range(stage.scale.turns):
        team = stage.team(f"{name}-{turn}", topic, share=_unlike(lane, lanes, turn, stage.scale.turns))
        stage.member(team, host, "rdkafka").start()
        await stage.has_gone(team)


async def in_turn_over_restarts(stage: Stage) -> None:
    """Read side by side while a gateway is killed, and one after another while one shuts down in order."""
    topic, host = await stage.topic(), stage.host()
    for turn, orderly in enumerate((False, True)):
        teams = []
        for lane in range(stage.scale.lanes):
            share = _unlike(lane, stage.scale.lanes, turn, 2)
            teams.append(team := stage.team(f"lane-{lane}-{turn}", topic, share=share))
            stage.member(team, host, "rdkafka").start()
            await stage.begins(team)
        async with stage.feeding():
            await stage.muster.settled_books(stage.prefix)  # or pending bytes would stay unattributed
            await stage.muster.end_gateway(stage.world.gateways[turn], orderly=orderly)
            await asyncio.gather(*(stage.goes_on(team) for team in teams))
        await asyncio.gather(*map(stage.has_gone, teams))


def _unlike(lane: int, lanes: int, turn: int, turns: int) -> float:
    """Return where a group starts: no two groups read the same amount, and groups that start together end apart."""
    return _BEGIN_WITHIN * (lane * _STRIDE % lanes * turns + turn) / (lanes * turns)


async def churn(stage: Stage) -> None:
    await _mixed(stage)
    newcomers = [stage.teams[number] for number in (0, 1)]
    async with stage.working(), stage.feeding():
        for number in range(stage.scale.rounds):
            team = newcomers[number % 2]
            guest = stage.member(team, stage.host(), f"guest-{number}")
            guest.start()
            await asyncio.sleep(1.5)
            stage.reconnect(every=2, first=number % 2)
            await asyncio.sleep(1.0)
            await stage.go(guest)


async def gateway_kills(stage: Stage) -> None:
    await _mixed(stage)
    async with stage.working(), stage.feeding():
        for number in range(stage.scale.rounds):
            await stage.muster.end_gateway(stage.world.gateways[number % 3], orderly=False)


async def gateway_restarts(stage: Stage) -> None:
    """Restart gateways, as in the seed incident: a closing broker deletes nodes of clients that never repeat their
    look-up."""
    await _mixed(stage)
    async with stage.working(), stage.feeding():
        for number in range(stage.scale.rounds):
            await stage.muster.end_gateway(stage.world.gateways[number % 3], orderly=True)


async def coordinator_kills(stage: Stage) -> None:
    await _mixed(stage)
    async with stage.working(), stage.feeding():
        for number in range(stage.scale.rounds):
            stage.reconnect(every=2, first=number % 2)
            await stage.muster.kill_coordinator(number % 2)


async def mappings_deleted(stage: Stage) -> None:
    await _mixed(stage)
    async with stage.working(), stage.feeding():
        for number in range(stage.scale.rounds):
            await stage.muster.delete_mappings()
            stage.reconnect(every=2, first=number % 2)
            await asyncio.sleep(1.5)


async def zookeeper_away(stage: Stage) -> None:
    """Let clients reconnect, and a member join, while ZooKeeper is unavailable."""
    await _mixed(stage)
    async with stage.working(), stage.feeding(), stage.muster.zookeeper_away():
        await asyncio.sleep(stage.scale.outage_s / 4)
        stage.reconnect()
        await asyncio.sleep(stage.scale.outage_s / 4)
        stage.member(stage.teams[0], stage.host(), "newcomer").start()
        await asyncio.sleep(stage.scale.outage_s / 2)


async def _mixed(stage: Stage) -> None:
    """Read by two groups with ids of their own, and pairs with one id: on different topics, with overlapping
    assignments."""
    topic = await stage.topic(batches=1)
    for group in range(2):
        team = stage.team(f"group-{group}", topic)
        for number in range(stage.scale.members):
            stage.member(team, stage.host(), f"service-{group}-{number}")
    host = stage.host()
    for name in ("a", "b"):
        stage.member(stage.team(name, await stage.topic(batches=1)), host, "rdkafka")
    host = stage.host()
    shared, *assignments = await stage.shared_topic()
    for name, partitions in zip(("c", "d"), assignments, strict=True):
        stage.member(stage.team(name, shared, partitions), host, "kgo")


CASES = (
    Case("unique", "unique client ids", unique_ids),
    Case("libraries", "each library's default id, two groups on one host", library_ids),
    Case("topics", "one id and host, different topics", different_topics),
    Case("overlapping", "one id and host, overlapping assignments", overlapping),
    Case("apart", "one id and host, identical assignments, positions apart", identical_apart),
    Case("together", "one id and host, identical assignments and positions", identical_together, may_swap=True),
    Case("nat", "many groups behind one address", nat),
    Case("simple", "simple consumers, and one without a group", simple_consumers),
    Case("simple-turns", "simple consumers, readers and members one after another", simple_cases.in_turn),
    Case("tools", "admin tools that ask for offsets and set them, and readers", simple_cases.tools),
    Case("frameworks", "readers as Beam, kafka-go and Spark have them", simple_cases.frameworks),
    Case("short", "groups that begin and end together", simple_cases.short_lived, may_swap=True),
    Case("quiet", "a group that leaves first, on a quiet topic", simple_cases.quiet),
    Case("readers", "readers without a group beside members, one id and host", readers_beside),
    Case("turns", "groups one after another, one id and host, one topic", in_turn),
    Case("lanes", "the same, many at a time", in_lanes, is_alone=True),
    Case("churn", "members come and go, clients reconnect", churn),
    Case("gateways", "SIGKILL to gateways", gateway_kills, is_alone=True),
    Case("restarts", "gateways shut down in order, one by one", gateway_restarts, is_alone=True),
    Case("turns-restarts", "groups one after another over a kill and a restart", in_turn_over_restarts, is_alone=True),
    Case("coordinators", "SIGKILL to coordinators", coordinator_kills, is_alone=True),
    Case("mappings", "all znodes below /client_group_id deleted", mappings_deleted, is_alone=True),
    Case("zookeeper", "ZooKeeper away", zookeeper_away, is_alone=True),
)
