"""Coordinators' knowledge of the leases that gateways have."""

from __future__ import annotations

import pytest

from muster.actors.group.types import GroupId, MemberId
from muster.actors.offsets.leases import Leases
from muster.actors.wire.internal.listener import Peer, Server
from muster.placement.lease import REPORT_MS
from tests.wire.test_channel import Echo

G, H = GroupId("g"), GroupId("h")
A, B = MemberId("a"), MemberId("b")


@pytest.fixture
def leases() -> Leases:
    return Leases()


def gateway() -> Peer:
    """Without a connection: what it is sent is dropped."""
    return Peer(Server(Echo(), b"secret"))


def test_a_lost_gateway_has_seen_no_more_than_it_had_time_for(leases: Leases) -> None:
    """It reports heartbeats at once, so a member that was silent is not alive because the gateway is lost."""
    lost = gateway()
    for token, member in enumerate((A, B)):
        leases.reply(lost, token, b"", G, member)
    group, a, b = 1, 2, 3  # in the order of the leases
    assert [(each.member, each.at_ms) for each in leases.seen(lost, [(a, 30), (b, 0)], 10_000)] == [
        (A, 9_970),
        (B, 10_000),
    ]
    assert list(leases.seen(lost, [(a, 0)], 55_000))
    seen, confirmed = leases.left(lost)
    assert {each.member: each.at_ms for each in seen} == {A: 55_000 + REPORT_MS, B: 10_000 + REPORT_MS}
    assert confirmed == []
    assert list(leases.seen(lost, [(group, 0)], 56_000)) == []
    assert leases.left(lost) == ([], [])


def test_a_group_is_confirmed_by_the_last_of_its_gateways(leases: Leases) -> None:
    one, two, three = gateway(), gateway(), gateway()
    for peer in (one, two, three):
        leases.reply(peer, 1, b"", G, A)
    leases.reply(one, 2, b"", H, A)
    numbers = (1, 3, 5)
    assert leases.revoke([G, GroupId("unknown")]) == [GroupId("unknown")]
    assert leases.confirmed(one, numbers[0]) == []
    assert leases.confirmed(one, numbers[0]) == [], "twice"
    assert leases.left(two) == ([], [])
    assert leases.confirmed(three, numbers[2]) == [G]
    assert list(leases.seen(one, [(2, 0)], 9)) == [], "what is reported of a lease that is over does not count"
    assert [each.group for each in leases.seen(one, [(8, 0)], 9)] == [H]


def test_the_last_gateway_may_be_lost_instead(leases: Leases) -> None:
    one, two = gateway(), gateway()
    for peer in (one, two):
        leases.reply(peer, 1, b"", G, A)
    assert leases.revoke([G]) == []
    assert leases.confirmed(one, 1) == []
    assert leases.left(two) == ([], [G])
