"""The members that evict selects, and the names of members."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from muster.gateway.cli.client.gateways import addresses
from muster.gateway.client.errors import MusterError
from muster.gateway.client.groups.evicting import which
from muster.gateway.client.groups.members import in_words


def member(member_id: str, client_id: str, instance: str | None = None) -> Any:
    return SimpleNamespace(member_id=member_id, client_id=client_id, group_instance_id=instance, host="/h")


MEMBERS = [member("c1-a", "c1"), member("c2-b", "c2", "i1"), member("c2-c", "c2", "c1-a"), member("d", "i1")]


@pytest.mark.parametrize(("wanted", "found"), [("c1-a", 0), ("c2-c", 2), ("i1", 1), ("c1", 0)])
def test_member_id_before_instance_id_before_client_id(wanted: str, found: int) -> None:
    assert which("g", MEMBERS, wanted) is MEMBERS[found]


def test_who_is_not_meant() -> None:
    with pytest.raises(MusterError, match=r"2 members of group g have the client id c2: c2-b .* c2-c"):
        which("g", MEMBERS, "c2")
    with pytest.raises(MusterError, match="group g has no member x; its members are c1-a"):
        which("g", MEMBERS, "x")
    with pytest.raises(MusterError, match="it has no members"):
        which("g", [], "x")


UUID = "52e2dcdf-1b22-4a98-ab02-2505a4d5bc1d"
PODS = [member(f"{name}-{UUID}", name) for name in ("consumer-1", "consumer-12")]


@pytest.mark.parametrize(
    "shown", ["consumer-12-52e2dcd", "consumer-12-52e2dcdf-1b22", "cons…-12-52e2dcd", "c...12-52e2dcd"]
)
def test_a_shortened_member_id(shown: str) -> None:
    assert which("g", PODS, shown) is PODS[1]


def test_a_shortened_member_id_that_several_have_or_that_is_too_short() -> None:
    with pytest.raises(MusterError, match=r"2 members of group g have member ids like c…-52e2dcd: consumer-1-"):
        which("g", PODS, "c…-52e2dcd")
    for short in ("consumer-12-52", "consumer", "c…", "52e2dcd"):
        with pytest.raises(MusterError, match="group g has no member"):
            which("g", PODS, short)


def test_many_members_are_named_shortly() -> None:
    assert in_words(MEMBERS[:1]) == "c1-a (client c1 on /h)"
    assert in_words(MEMBERS[1:2]) == "c2-b (client c2 on /h, instance i1)"
    assert in_words([member(str(number), "c") for number in range(9)]).endswith("4 (client c on /h) and 4 more")


def test_bootstrap_servers() -> None:
    assert list(addresses("a:1, [::1]:9092,,PLAINTEXT://b.c:65535")) == [("a", 1), ("::1", 9092), ("b.c", 65535)]
    for bad in ("a", "a:", ":1", "a:x", "a:0", "a:65536", "a:٣"):
        with pytest.raises(MusterError, match="is not HOST:PORT"):
            list(addresses(bad))
