"""A right that is withdrawn counts from the next request on, and what is not allowed is no hint at a group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from muster.actors.config.groups import GROUP_BYTE_RATE
from muster.actors.group.types import GroupId
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.groups import k09_offset_fetch
from muster.placement.security.acls import AclFilter, AclResourceType
from muster.placement.view import Topic
from tests.attribution import bench
from tests.gateway.apis.test_data_apis import fetch, produce
from tests.gateway.apis.test_heartbeat_leases import Coordinator, coordinator, leased, stable
from tests.gateway.authorization.acls import acl
from tests.gateway.config_requests import DELETE, GROUP, SET, incremental
from tests.gateway.config_requests import replace as replace_configs
from tests.gateway.group_client import OFFSET_FETCH, Fresh, find
from tests.gateway.serving import Serving
from tests.log.support import client_batch

__all__ = ["coordinator"]

PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
    "group.initial.rebalance.delay.ms": "0",
}
CLIENT = "User:ANONYMOUS"
Allow = Callable[..., None]


@pytest.fixture
def allow(full: Serving) -> Iterator[Allow]:
    """Yield a function that creates ACLs for the client; they are gone after the test."""

    def create(*rules: str) -> None:
        full.run(full.controller.create_acls([acl(rule, CLIENT) for rule in rules]))

    yield create
    full.run(full.controller.delete_acls([AclFilter()]))


def test_a_leased_heartbeat_is_refused_once_the_group_may_not_be_read(
    full: Serving, fresh: Fresh, coordinator: Coordinator, allow: Allow
) -> None:
    group = GroupId(fresh("g"))
    allow(f"ALLOW READ GROUP {group}")
    member = stable(full, group)
    leased(member, coordinator)
    before = coordinator.heartbeats
    full.run(full.controller.delete_acls([AclFilter()]))
    assert member.heartbeat() is ErrorCode.group_authorization_failed
    assert coordinator.heartbeats == before
    allow(f"ALLOW READ GROUP {group}")
    assert member.heartbeat() is ErrorCode.none


@pytest.mark.parametrize("right", ["DESCRIBE", "READ"])
def test_a_client_id_is_a_hint_only_at_a_group_that_may_be_read(
    full: Serving, fresh: Fresh, allow: Allow, right: str
) -> None:
    topic, group = full.create(fresh("t")), fresh("g")
    allow(f"ALLOW {right} GROUP {group}", f"ALLOW WRITE TOPIC {topic.name}", f"ALLOW READ TOPIC {topic.name}")
    elsewhere = bench.Coordinator().register(group, "m", 0, host="10.0.0.9", principal=None)

    async def known() -> None:
        full.gateway.account.updates([elsewhere], full.gateway.now_ms())

    full.run(known())
    with full.connect(f"consumer-{group}-1") as client:
        produce(client, (topic, 0, client_batch(1)))
        assert fetch(client, (topic, 0, 0))[0].records

    async def settled() -> set[str | None]:
        account = full.gateway.account
        account.settle(full.gateway.now_ms() + 120_000)
        return {label for label, _, _, name, _ in account.settled() if name == topic.name}

    assert full.run(settled()) == {group if right == "READ" else None}


def test_a_topic_that_appears_while_its_id_is_judged_is_unknown(
    full: Serving, fresh: Fresh, allow: Allow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is served of a name that was not judged."""
    group, topic = fresh("g"), full.controller.registry.create(fresh("t"), 1, {})
    allow(f"ALLOW READ GROUP {group}")
    find(full.client, 4, group)
    full.follow(replace(full.gateway.view, topics=without(full, topic), version=full.controller.view().version))
    view = full.controller.view()
    assert topic.name in view.topics
    fetch_group = k09_offset_fetch._fetch_group

    async def fetch_later(*arguments: Any) -> dict[str, Any]:
        full.gateway.follow(view)
        return await fetch_group(*arguments)

    monkeypatch.setattr(k09_offset_fetch, "_fetch_group", fetch_later)
    wanted = [{"topic_id": topic.topic_id, "partition_indexes": [0]}]
    of_group = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": wanted}
    response = full.exchange(OFFSET_FETCH, 10, {"groups": [of_group], "require_stable": False})
    assert topic.name in full.gateway.view.topics
    assert response.groups[0].topics[0].partitions[0].error_code is ErrorCode.unknown_topic_id


def without(full: Serving, topic: Topic) -> Mapping[str, Topic]:
    return {name: each for name, each in full.gateway.view.topics.items() if name != topic.name}


@pytest.mark.parametrize("replaces", [False, True])
def test_the_quota_of_a_group_is_the_clusters(full: Serving, fresh: Fresh, allow: Allow, replaces: bool) -> None:
    """ALL on a group, which its owner may well have, does not lift its quota; other configs of the group it alters."""
    group, interval = fresh("g"), "consumer.heartbeat.interval.ms"
    refused = ErrorCode.cluster_authorization_failed
    allow(f"ALLOW ALL GROUP {group}", "ALLOW ALTER_CONFIGS CLUSTER kafka-cluster")

    def alter(**configs: str | None) -> ErrorCode:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        if replaces:
            return ErrorCode(replace_configs(full.client, (GROUP, group, named))[0].error_code)
        changes = [(name, SET if value else DELETE, value) for name, value in named.items()]
        return ErrorCode(incremental(full.client, (GROUP, group, changes))[0].error_code)

    assert alter(group_byte_rate="1000") is ErrorCode.none
    full.run(full.controller.delete_acls([AclFilter(resource_type=AclResourceType.CLUSTER)]))
    assert alter(group_byte_rate="2000") is refused
    assert alter(group_byte_rate="2000", **{interval: "6000"}) is refused
    gone = alter(**{interval: "6000"}) if replaces else alter(group_byte_rate=None)
    assert gone is refused
    assert full.gateway.view.configs.groups[group] == {GROUP_BYTE_RATE: "1000"}
    kept: dict[str, str | None] = {"group_byte_rate": "1000"} if replaces else {}
    assert alter(**kept, **{interval: "6000"}) is ErrorCode.none
    assert full.gateway.view.configs.groups[group] == {GROUP_BYTE_RATE: "1000", interval: "6000"}
