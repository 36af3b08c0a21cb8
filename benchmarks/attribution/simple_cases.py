"""Cases about clients that look like a group's and are not: simple consumers, tools, readers without a group."""

from __future__ import annotations

import asyncio

from benchmarks.attribution.consumer import Consumer, Team
from benchmarks.attribution.stage import PARTITIONS, Stage

_SPARK_ID = "consumer-spark-kafka-source-5f3a2c1e-9d41-executor-1"
_BEAM_ID = "consumer-beam-1"
_KAFKA_GO_ID = "reader@host (github.com/segmentio/kafka-go)"


async def in_turn(stage: Stage) -> None:
    """Run programs one after another on one host, with one client id and topic: each closes before the next one
    begins."""
    topic, host = await stage.topic(), stage.host()
    kinds = (_simple, _nobody, _simple, _member, _simple, _nobody)
    for turn in range(stage.scale.turns):
        name = None if kinds[turn % len(kinds)] is _nobody else f"job-{turn}"
        team = stage.team(name, topic, share=0.9 * turn / stage.scale.turns)
        kinds[turn % len(kinds)](stage, team, host).start()
        await stage.has_gone(team)


async def tools(stage: Stage) -> None:
    """Let a tool read a group's offsets and set them; then a reader has its client id and address, and a member."""
    for number in range(stage.scale.pairs):
        topic, host = await stage.topic(), stage.host()
        known = stage.team(f"known-{number}", topic)
        await stage.begin_at(known, 0.5)
        await stage.look_at(known, host, "rdkafka")
        reader = stage.team(None, topic, share=0.5)
        _nobody(stage, reader, host).start()
        await stage.begins(reader)
        await stage.look_at(known, host, "rdkafka")
        await stage.set_offsets(known, host, "rdkafka", 0)
        await stage.has_gone(reader)
        member = stage.team(f"member-{number}", topic)
        _member(stage, member, host).start()
        await stage.has_gone(member)


async def short_lived(stage: Stage) -> None:
    """Run groups that begin together, read the same and leave together."""
    for _ in range(stage.scale.pairs):
        topic, host = await stage.topic(), stage.host()
        teams = [stage.team(f"short-{topic.rpartition('-')[2]}-{each}", topic) for each in range(stage.scale.lanes)]
        for team in teams:
            _member(stage, team, host).start()
        await asyncio.gather(*(stage.has_read(team) for team in teams))
        await asyncio.gather(*(stage.go(consumer) for team in teams for consumer in team.consumers))


async def quiet(stage: Stage) -> None:
    """Produce nothing. A group has read everything when another one begins, reads, and leaves first."""
    for number in range(stage.scale.pairs):
        topic, host = await stage.topic(), stage.host()
        stays, leaves = (stage.team(f"{name}-{number}", topic, share=share) for name, share in (("s", 0.0), ("l", 0.3)))
        _member(stage, stays, host).start()
        await stage.has_read(stays)
        _member(stage, leaves, host).start()
        await stage.has_gone(leaves)
        await stage.has_gone(stays)


async def frameworks(stage: Stage) -> None:
    """Read as Beam does (assign() with commits), as kafka-go (a connection per partition) and as Spark (no group)."""
    host = stage.host()
    for number in range(stage.scale.pairs):
        topic = await stage.topic()
        stage.simple(stage.team(f"beam-{number}", topic), host, _BEAM_ID, range(PARTITIONS), from_committed=False)
        stage.nobody(stage.team(None, topic), host, _SPARK_ID)
        for name in "ab":
            topic = await stage.topic()
            stage.member(stage.team(f"go-{name}-{number}", topic), host, _KAFKA_GO_ID).connects_each = True
    await stage.read_all()


def _simple(stage: Stage, team: Team, host: str) -> Consumer:
    return stage.simple(team, host, "rdkafka", range(PARTITIONS), from_committed=False)


def _nobody(stage: Stage, team: Team, host: str) -> Consumer:
    return stage.nobody(team, host, "rdkafka")


def _member(stage: Stage, team: Team, host: str) -> Consumer:
    return stage.member(team, host, "rdkafka")
