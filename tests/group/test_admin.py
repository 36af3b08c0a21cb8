"""ListGroups and DescribeGroups. Numbers: the behaviour table's cases."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.group.apis.admin import ALL_OPERATIONS
from muster.actors.group.messages import OPERATIONS_OMITTED, DescribedGroup, DescribeGroups, ListGroups
from muster.actors.group.types import GroupId
from tests.group.driver import RANGE, ROUNDROBIN, Driver, assignment, commit, join


@pytest.mark.parametrize(
    ("states", "types", "listed"),
    [
        ((), (), {"g", "simple"}),
        ((" stable ",), (), {"g"}),
        (("STABLE", "empty"), (), {"g", "simple"}),
        (("bogus",), (), set()),
        ((), ("CLASSIC",), {"g", "simple"}),
        ((), ("consumer",), set()),
        (("Empty",), ("classic",), {"simple"}),
    ],
)
def test_60_list_groups_filters(
    driver: Driver, states: tuple[str, ...], types: tuple[str, ...], listed: set[str]
) -> None:
    driver.stable()
    driver.exchange(commit({("t", 0): 1}, group="simple"))
    response = driver.exchange(ListGroups(api_version=5, states_filter=states, types_filter=types))
    assert {group.group_id for group in response.groups} == listed


def _describe(driver: Driver, group: str = "g", *, version: int = 5, operations: bool = False) -> DescribedGroup:
    (described,) = driver.exchange(
        DescribeGroups(api_version=version, groups=(GroupId(group),), include_authorized_operations=operations)
    ).groups
    assert isinstance(described, DescribedGroup)
    return described


def test_describe_a_stable_group(driver: Driver) -> None:
    driver.stable(protocols=(ROUNDROBIN, RANGE))
    described = _describe(driver, operations=True)
    assert (described.state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "roundrobin")
    (member,) = described.members
    assert (member.client_id, member.client_host) == ("c", "/10.0.0.7")
    assert (member.metadata, member.assignment) == (ROUNDROBIN[1], assignment(("t", 0)))
    assert described.authorized_operations == ALL_OPERATIONS == 3400


def test_describe_a_moving_group(driver: Driver) -> None:
    driver.stable()
    driver.send(join(version=3))
    described = _describe(driver)
    assert (described.state, described.protocol_data) == ("PreparingRebalance", "")
    assert [member.metadata for member in described.members] == [b"", b""]
    assert described.members[0].assignment == assignment(("t", 0))
    assert described.authorized_operations == OPERATIONS_OMITTED


def test_describe_simple_and_unknown_groups(driver: Driver) -> None:
    driver.exchange(commit({("t", 0): 1}))
    described = _describe(driver)
    assert (described.state, described.protocol_type, described.members) == ("Empty", "", ())
    unknown = _describe(driver, "nowhere")
    assert (unknown.error, unknown.state) == (ErrorCode.none, "Dead")
    unknown = _describe(driver, "nowhere", version=6)
    assert (unknown.error, unknown.state) == (ErrorCode.group_id_not_found, "Dead")
    assert unknown.error_message
