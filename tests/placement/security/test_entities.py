"""Entities and their configs in a real ZooKeeper, where Kafka has them."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from muster.placement.epochs import Superseded, take_controller_epoch
from muster.placement.security.entities import (
    Entity,
    EntityAlteration,
    MalformedEntity,
    UnstorableName,
    decode_name,
    encode_name,
)
from muster.placement.security.entity_registry import EntityRegistry
from muster.placement.view import DynamicConfigs
from muster.placement.zookeeper.client import ZooKeeperClient

ANN = Entity.of_user("ann")


def sets(entity: Entity, **configs: str) -> EntityAlteration:
    return EntityAlteration(entity=entity, set=configs)


def removes(entity: Entity, *names: str) -> EntityAlteration:
    return EntityAlteration(entity=entity, remove=frozenset(names))


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        (ANN, "/config/users/ann"),
        (Entity.of_user(None), "/config/users/<default>"),
        (Entity.of_user("<default>"), "/config/users/%3Cdefault%3E"),
        (Entity.of_user("CN=a b,O=ü*/~-_."), "/config/users/CN%3Da%20b%2CO%3D%C3%BC%2A%2F~-_."),
        (Entity.of_client("c"), "/config/clients/c"),
        (Entity.of_client(None), "/config/clients/<default>"),
        (Entity.of_user_client("ann", "c/1"), "/config/users/ann/clients/c%2F1"),
        (Entity.of_user_client(None, None), "/config/users/<default>/clients/<default>"),
        (Entity.of_ip("::1"), "/config/ips/%3A%3A1"),
        (Entity.of_ip(None), "/config/ips/<default>"),
    ],
)
def test_paths_are_kafkas(zk: ZooKeeperClient, entity: Entity, path: str) -> None:
    assert entity.path == path
    registry = EntityRegistry(zk)
    registry.alter(sets(entity, a="1"))
    assert json.loads(zk.get(path)[0]) == {"version": 1, "config": {"a": "1"}}
    assert registry.load() == {entity: {"a": "1"}}


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_is_no_node_is_refused(zk: ZooKeeperClient, name: str) -> None:
    with pytest.raises(UnstorableName):
        EntityRegistry(zk).alter(sets(Entity.of_user(name), a="1"))


def test_names_that_kafka_did_not_encode_are_read_too() -> None:
    assert decode_name(encode_name("a+b c")) == "a+b c"
    assert decode_name("a@b") == "a@b"
    for bad in ("%", "%zz", "%ff"):
        with pytest.raises(MalformedEntity):
            decode_name(bad)


def test_only_kafkas_entities_exist() -> None:
    for parts in ((), (("group", "g"),), (("client-id", "c"), ("user", "u")), (("user", "u"), ("ip", "1"))):
        with pytest.raises(ValueError, match="no entity has the parts"):
            Entity(parts)
    assert (ANN.user, Entity.of_user_client("ann", "c").user, Entity.of_client("c").user) == ("ann", None, None)


def test_keys_are_changed_and_others_stay(zk: ZooKeeperClient) -> None:
    registry = EntityRegistry(zk)
    registry.alter(sets(ANN, a="1", b="2"))
    registry.alter(EntityAlteration(entity=ANN, set={"c": "3"}, remove=frozenset({"a", "never"})))
    assert registry.load() == {ANN: {"b": "2", "c": "3"}}


def test_a_user_without_configs_keeps_the_clients(zk: ZooKeeperClient) -> None:
    registry = EntityRegistry(zk)
    of_client = Entity.of_user_client("ann", "c")
    registry.alter(sets(of_client, a="1"))
    registry.alter(sets(ANN, b="2"))
    registry.alter(removes(ANN, "b"))
    assert registry.load() == {of_client: {"a": "1"}}
    registry.alter(removes(of_client, "a"))
    assert registry.load() == {}
    registry.alter(removes(Entity.of_user("never"), "a"))
    assert zk.get_children("/config/users") == ["ann"]


def test_a_repeated_alteration_writes_nothing(zk: ZooKeeperClient) -> None:
    registry = EntityRegistry(zk)
    for _ in range(2):
        registry.alter(EntityAlteration(entity=ANN, set={"a": "1"}, remove=frozenset({"b"})))
    assert zk.get(ANN.path)[1].version == 0


def test_changes_of_one_user_at_the_same_time_are_all_made(zk: ZooKeeperClient) -> None:
    registry = EntityRegistry(zk)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: registry.alter(sets(ANN, **{f"k{number}": "1"})), range(16)))
    assert len(registry.load()[ANN]) == 16


def test_a_superseded_controller_changes_nothing(zk: ZooKeeperClient) -> None:
    old = EntityRegistry(zk, take_controller_epoch(zk))
    new = EntityRegistry(zk, take_controller_epoch(zk))
    with pytest.raises(Superseded):
        old.alter(sets(ANN, a="1"))
    new.alter(sets(ANN, a="2"))
    with pytest.raises(Superseded):
        old.alter(sets(ANN, a="1"))
    assert new.load() == {ANN: {"a": "2"}}


def test_a_malformed_node_hides_no_other_and_is_not_shown(
    zk: ZooKeeperClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    registry = EntityRegistry(zk)
    registry.alter(sets(ANN, a="1"))
    zk.create("/config/users/%zz", b"{}")
    for name, data in (("bob", b"planted-secret"), ("eve", b'{"version":1,"config":["planted-secret"]}')):
        zk.create(f"/config/users/{name}", data)
    assert registry.load() == {ANN: {"a": "1"}}
    assert "/config/users/bob is left out" in caplog.text
    registry.alter(sets(Entity.of_user("bob"), b="2"))
    assert registry.load()[Entity.of_user("bob")] == {"b": "2"}
    assert "planted-secret" not in caplog.text


def test_no_secret_is_in_a_text() -> None:
    configs = DynamicConfigs(entities={ANN: {"SCRAM-SHA-256": "planted-secret"}})
    assert "planted-secret" not in f"{configs!r} {sets(ANN, a='planted-secret')!r}"
