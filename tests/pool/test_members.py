"""Whose members are whose, by the names of actors and clients."""

from __future__ import annotations

import pytest

from muster.gateway.client.kafka.groups import Member
from muster.gateway.client.pool.members import orphans, slot_of
from muster.gateway.client.pool.names import NAMESPACE, client_id, client_prefix, worker_name, worker_slots

PREFIX = client_prefix("orders", "ab12cd")


def member(name: str) -> Member:
    return Member(f"{name}-uuid", name, frozenset())


def test_only_members_of_slots_without_an_actor_are_orphans() -> None:
    members = [member(client_id("orders", "ab12cd", slot)) for slot in range(4)]
    assert orphans(members, PREFIX, {0, 2}) == [members[1], members[3]]
    assert orphans(members, PREFIX, range(4)) == []
    assert orphans(members, PREFIX, ()) == members


@pytest.mark.parametrize(
    "name",
    [
        "",
        "rdkafka",
        client_id("orders", "ffffff", 1),
        client_id("other", "ab12cd", 1),
        f"{PREFIX}supervisor",
        PREFIX,
        f"{PREFIX}-1",
        f"{PREFIX}1-2",
        f"x{PREFIX}1",
    ],
)
def test_members_of_others_are_never_orphans(name: str) -> None:
    assert slot_of(member(name), PREFIX) is None
    assert orphans([member(name)], PREFIX, ()) == []


def test_workers_are_found_among_all_actors() -> None:
    ours = [{"namespace": NAMESPACE, "name": worker_name("ab12cd", slot)} for slot in (10, 2)]
    others = [
        {"namespace": "else", "name": worker_name("ab12cd", 3)},
        {"namespace": NAMESPACE, "name": worker_name("ab12ce", 4)},
        {"namespace": NAMESPACE, "name": "muster-pool:muster-pool-worker:ab12cd:5"},
        {"namespace": NAMESPACE, "name": "muster-pool-worker:ab12cd:"},
    ]
    assert worker_slots("ab12cd", [*ours, *others]) == [2, 10]
