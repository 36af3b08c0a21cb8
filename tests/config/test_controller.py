"""Config changes by the controller, with a real ZooKeeper, without Ray."""

from __future__ import annotations

import asyncio

import pytest

from muster.actors.config import MusterConfig, in_force
from muster.actors.config.altering import Alteration, Change, Operation
from muster.actors.config.resources import ResourceType
from muster.actors.controller.admin import NewTopic
from muster.actors.controller.topics import TopicsAdmin
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.configs import ConfigRegistry
from muster.placement.epochs import take_controller_epoch
from muster.placement.topics import TopicRegistry
from muster.placement.view import DynamicConfigs
from muster.placement.zookeeper.client import ZooKeeperClient

CONFIG = MusterConfig.from_properties({"num.partitions": "2"})


def controller(zk: ZooKeeperClient, changed: list[None]) -> TopicsAdmin:
    """Return a controller that has just started."""
    epoch = take_controller_epoch(zk)
    return TopicsAdmin(TopicRegistry(zk, epoch), ConfigRegistry(zk, epoch), CONFIG, lambda: changed.append(None))


def sets(kind: ResourceType, resource: str, name: str, value: str) -> Alteration:
    return Alteration(kind, resource, (Change(name, Operation.SET, value),))


def test_what_was_altered_is_announced_and_outlives_the_controller(zk: ZooKeeperClient) -> None:
    changed: list[None] = []

    async def alter() -> TopicsAdmin:
        admin = controller(zk, changed)
        await asyncio.to_thread(admin.load)
        await admin.create([NewTopic("t", -1, -1, {})], False)
        assert admin.topics["t"].partitions == 2
        before = len(changed)
        outcomes = await admin.alter_configs(
            [
                sets(ResourceType.TOPIC, "t", "retention.ms", "7"),
                sets(ResourceType.TOPIC, "nobody", "retention.ms", "7"),
                sets(ResourceType.BROKER, "", "num.partitions", "5"),
                sets(ResourceType.BROKER, "", "num.partitions", "0"),
                sets(ResourceType.BROKER, "", "default.replication.factor", "3"),
                sets(ResourceType.BROKER, "3", "max.connections", "7"),
                sets(ResourceType.GROUP, "g", "consumer.session.timeout.ms", "50000"),
            ],
            False,
        )
        codes = [ErrorCode(outcome.error) for outcome in outcomes]
        unknown, invalid = ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_request
        good = ErrorCode.none
        assert codes == [good, unknown, good, invalid, good, good, good]
        assert len(changed) == before + 1
        await admin.create([NewTopic("u", -1, -1, {})], False)
        assert (admin.topics["u"].partitions, admin.topics["u"].replication_factor) == (5, 3)
        return admin

    admin = asyncio.run(alter())
    successor = controller(zk, changed)
    successor.load()
    assert (successor.topics, successor.configs) == (admin.topics, admin.configs)
    assert successor.topics["t"].config == {"retention.ms": "7"}
    assert successor.configs == DynamicConfigs(
        cluster={"default.replication.factor": "3", "num.partitions": "5"},
        brokers={3: {"max.connections": "7"}},
        groups={"g": {"consumer.session.timeout.ms": "50000"}},
    )


def test_configs_of_groups_are_not_read_for_each_alteration(
    zk: ZooKeeperClient, caplog: pytest.LogCaptureFixture
) -> None:
    """There may be as many as there are groups, and a request may alter that many."""
    zk.ensure_path("/config/groups")
    zk.create("/config/groups/g", b"is told whenever it is read")

    async def alter() -> None:
        admin = controller(zk, [])
        await asyncio.to_thread(admin.load)
        caplog.clear()
        names = [f"group-{number}" for number in range(5)]
        alterations = [sets(ResourceType.GROUP, name, "consumer.session.timeout.ms", "50000") for name in names]
        outcomes = await admin.alter_configs(
            [*alterations, sets(ResourceType.BROKER, "", "num.partitions", "5")], False
        )
        assert {outcome.error for outcome in outcomes} == {ErrorCode.none}

    asyncio.run(alter())
    assert len([line for line in caplog.messages if "/config/groups/g is left out" in line]) == 1


def test_what_is_only_validated_is_neither_done_nor_announced(zk: ZooKeeperClient) -> None:
    changed: list[None] = []

    async def validate() -> None:
        admin = controller(zk, changed)
        await asyncio.to_thread(admin.load)
        await admin.alter_configs([sets(ResourceType.BROKER, "", "num.partitions", "5")], True)
        assert (admin.configs, changed) == (DynamicConfigs(), [])
        assert in_force(CONFIG, ConfigRegistry(zk).load()).num_partitions == 2

    asyncio.run(validate())


def test_a_name_that_collides_is_refused_when_it_is_only_validated(zk: ZooKeeperClient) -> None:
    async def create() -> None:
        admin = controller(zk, [])
        await asyncio.to_thread(admin.load)
        await admin.create([NewTopic("a.b", 1, 1, {})], False)
        for validate_only in (True, False):
            [outcome] = await admin.create([NewTopic("a_b", 1, 1, {})], validate_only)
            assert outcome.error == ErrorCode.invalid_topic_exception

    asyncio.run(create())
