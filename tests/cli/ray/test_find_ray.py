"""``--address auto``: this user's Ray, never another process's private one."""

from __future__ import annotations

import pytest

from muster.gateway.cli.errors import CliError
from muster.gateway.cli.ray.find_ray import LocalRay, choose

OURS = LocalRay(address="10.0.0.1:6379", user="ann", is_own=True)
SECOND = LocalRay(address="10.0.0.1:7000", user="ann", is_own=True)
PRIVATE = LocalRay(address="127.0.0.1:4000", user="ann", is_own=True, is_private=True)
OTHERS = LocalRay(address="10.0.0.1:6380", user="bob", is_own=False)
OTHERS_PRIVATE = LocalRay(address="127.0.0.1:4001", user="bob", is_own=False, is_private=True)


def test_this_users_ray_beside_private_ones_and_others() -> None:
    assert choose([PRIVATE, OTHERS, OURS, OURS, OTHERS_PRIVATE], None) == OURS.address


def test_of_several_the_one_that_was_started_last() -> None:
    assert choose([OURS, SECOND], SECOND.address) == SECOND.address


def test_the_last_one_has_ended() -> None:
    assert choose([OURS], SECOND.address) == OURS.address


@pytest.mark.parametrize(
    ("rays", "said"),
    [
        ([], "no Ray of this user responds on this host; start one"),
        ([PRIVATE, OTHERS_PRIVATE], "no Ray of this user responds on this host; start one"),
        ([OTHERS], "no Ray of this user responds on this host, 10.0.0.1:6380 belongs to bob; start one"),
        ([SECOND, OURS], "several Rays run on this host: 10.0.0.1:6379, 10.0.0.1:7000; choose one"),
    ],
    ids=["none", "private ones", "another user's", "two"],
)
def test_there_is_none_or_no_telling(rays: list[LocalRay], said: str) -> None:
    for last_started in (None, "10.0.0.9:1", *(ray.address for ray in rays if not ray.is_own or ray.is_private)):
        with pytest.raises(CliError, match=said):
            choose(rays, last_started)
