"""ACLs in a real ZooKeeper, as Kafka's tools would find them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from muster.placement.epochs import Superseded, take_controller_epoch
from muster.placement.security.acl_nodes import LITERAL_CHANGES, PREFIXED_CHANGES, acl_path
from muster.placement.security.acl_registry import AclChange, AclRegistry, batches
from muster.placement.security.acls import ANYONE, Acl, AclOperation, AclPattern, AclPermission
from muster.placement.zookeeper.client import ZooKeeperClient, connect
from tests.gateway.authorization.acls import acl

READ, WRITE = acl("ALLOW READ TOPIC pay"), acl("DENY WRITE TOPIC pay", "User:bob", "10.0.0.1")
PREFIX, GROUP = acl("ALLOW ALL GROUP é *"), acl("ALLOW READ GROUP *")


def changes(added: Iterable[Acl] = (), removed: Iterable[Acl] = ()) -> list[AclChange]:
    patterns = {each.pattern for each in (*added, *removed)}

    def of(acls: Iterable[Acl], pattern: AclPattern) -> frozenset[Acl]:
        return frozenset(each for each in acls if each.pattern == pattern)

    return [AclChange(pattern, of(added, pattern), of(removed, pattern)) for pattern in patterns]


def stored(zk: ZooKeeperClient) -> set[Acl]:
    return {each for acls in AclRegistry(zk).load().values() for each in acls}


def test_they_are_sets_and_nodes_without_any_are_removed(zk: ZooKeeperClient) -> None:
    registry = AclRegistry(zk)
    assert registry.load() == {}
    registry.change(changes([READ, WRITE, PREFIX, GROUP]))
    assert registry.change(changes([READ])) == {READ.pattern: {READ, WRITE}}
    assert stored(zk) == {READ, WRITE, PREFIX, GROUP}
    assert json.loads(zk.get("/kafka-acl/Topic/pay")[0])["acls"] == [
        {"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"},
        {"principal": "User:bob", "permissionType": "Deny", "operation": "Write", "host": "10.0.0.1"},
    ]
    assert zk.exists("/kafka-acl-extended/prefixed/Group/é ")
    assert zk.exists("/kafka-acl/Group/*")
    registry.change(changes(removed=[READ, PREFIX]))
    assert stored(zk) == {WRITE, GROUP}
    registry.change(changes(removed=[WRITE, PREFIX]))
    assert not zk.exists("/kafka-acl/Topic/pay")
    assert not zk.exists("/kafka-acl-extended/prefixed/Group/é ")


def test_changes_are_announced_as_kafka_does_and_only_if_there_are_any(zk: ZooKeeperClient) -> None:
    registry = AclRegistry(zk)
    registry.change(changes([READ, PREFIX]))
    registry.change(changes([READ]))
    registry.change(changes(removed=[READ]))
    first, second = sorted(zk.get_children(LITERAL_CHANGES))
    assert first == "acl_changes_0000000000"
    assert zk.get(f"{LITERAL_CHANGES}/{second}")[0] == b"TOPIC:pay"
    (extended,) = zk.get_children(PREFIXED_CHANGES)
    assert json.loads(zk.get(f"{PREFIXED_CHANGES}/{extended}")[0])["name"] == "é "


def test_old_announcements_are_removed(zk: ZooKeeperClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.placement.security.acl_registry._NOTIFIED_S", -1.0)
    now_s = [0.0]
    registry = AclRegistry(zk, monotonic_s=lambda: now_s[0])
    registry.change(changes([READ]))
    registry.change(changes([WRITE]))
    assert len(zk.get_children(LITERAL_CHANGES)) == 1
    now_s[0] = 61.0
    registry.change(changes([GROUP]))
    assert zk.get_children(LITERAL_CHANGES) == []


def test_writers_at_once_lose_nothing(zk: ZooKeeperClient) -> None:
    added = [acl("ALLOW READ TOPIC t", f"User:{number}") for number in range(20)]
    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(AclRegistry(zk).change, changes([each])) for each in added]:
            done.result()
    assert stored(zk) == set(added)


def test_a_controller_that_has_a_successor_changes_nothing(zk: ZooKeeperClient) -> None:
    old = AclRegistry(zk, take_controller_epoch(zk))
    old.change(changes([READ]))
    take_controller_epoch(zk)
    with pytest.raises(Superseded):
        old.change(changes([GROUP], [READ]))
    assert stored(zk) == {READ}


def test_what_cannot_be_read_denies(zk: ZooKeeperClient, caplog: pytest.LogCaptureFixture) -> None:
    """It may have denied something to someone."""
    registry = AclRegistry(zk)
    registry.change(changes([READ, GROUP]))
    zk.set("/kafka-acl/Topic/pay", b'{"version":9,"acls":[{"principal":"User:a","operation":"Fly"}]}')
    denies = Acl(READ.pattern, ANYONE, "*", AclOperation.ALL, AclPermission.DENY)
    assert stored(zk) == {denies, GROUP}
    assert "/kafka-acl/Topic/pay denies everything" in caplog.text


def test_any_number_of_acls_with_long_names(zk: ZooKeeperClient, zk_hosts: str) -> None:
    """More than fits in one of ZooKeeper's packets."""
    added = [acl(f"ALLOW READ GROUP {number}{'g' * 30_000}") for number in range(50)]
    added += [acl(f"ALLOW READ TOPIC t-{number}") for number in range(500)]
    registry = AclRegistry(zk)
    for batch in batches(changes(added), {}):
        registry.change(batch)
    another = connect(zk_hosts, timeout_s=10)
    try:
        assert stored(another) == set(added)
    finally:
        another.shut()
    assert len(acl_path(added[0].pattern)) > 30_000
