"""The life of a group in every version of its APIs, as bytes on a connection, with real coordinators."""

from __future__ import annotations

import pytest

from muster.actors.wire.kafka.codec import ErrorCode, field, versions_of
from muster.gateway.listener.api import APIS
from tests.gateway.faults.test_fault_responses import body_of
from tests.gateway.group_client import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    JOIN_GROUP,
    LIST_GROUPS,
    NOBODY,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
    UNKNOWN_ID,
    Fresh,
    Member,
    coordinators_down,
    delete,
    find,
    groups_in_two_partitions,
)
from tests.gateway.serving import Serving

PROPERTIES = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}


@pytest.mark.parametrize("version", range(11))
def test_the_life_of_a_group(full: Serving, fresh: Fresh, version: int) -> None:
    topic, group = full.create(fresh("t"), 2), fresh("g")
    client = full.client
    member = Member(client, group, version)
    assert find(client, member.nearest(FIND_COORDINATOR), group) == [(group, 1, ErrorCode.none)]

    joined = member.join()
    assert (joined.error_code, joined.generation_id, joined.leader) == (ErrorCode.none, 1, member.id)
    assert joined.protocol_name == "range"
    assert [(item.member_id, item.metadata) for item in joined.members] == [(member.id, b"what I want")]
    assert field(joined, "protocol_type", "consumer") == "consumer"
    synced = member.sync({member.id: b"what you get"})
    assert (synced.error_code, synced.assignment) == (ErrorCode.none, b"what you get")
    assert member.heartbeat() is ErrorCode.none

    by_id = member.nearest(OFFSET_COMMIT) >= 10
    name, missing = (topic.topic_id, UNKNOWN_ID) if by_id else (topic.name, "nope")
    no_topic = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
    assert member.commit((topic, 0, 42)) == [(name, 0, ErrorCode.none)]
    assert member.commit((topic, 1, 43), (topic, 2, 44), (NOBODY, 0, 45)) == [
        (name, 2, ErrorCode.unknown_topic_or_partition),
        (name, 1, ErrorCode.none),
        (missing, 0, no_topic),
    ]
    assert member.commit((NOBODY, 0, 45)) == [(missing, 0, no_topic)]
    by_id = member.nearest(OFFSET_FETCH) >= 10
    name, missing = (topic.topic_id, UNKNOWN_ID) if by_id else (topic.name, "nope")
    assert member.committed([topic]) == [(name, 42, "here", ErrorCode.none)]
    assert member.committed([topic], 1) == [(name, 43, "here", ErrorCode.none)]
    assert member.committed([topic, NOBODY], 2) == [
        (name, -1, "", ErrorCode.none),
        (missing, -1, "", ErrorCode.unknown_topic_id if by_id else ErrorCode.none),
    ]
    if member.nearest(OFFSET_FETCH) >= 2:
        assert sorted(offset for _, offset, _, _ in member.committed(None)) == [42, 43]

    (listed,) = [
        item
        for item in client.exchange(
            LIST_GROUPS, member.nearest(LIST_GROUPS), {"states_filter": [], "types_filter": []}
        ).groups
        if item.group_id == group
    ]
    assert (listed.protocol_type, field(listed, "group_state", "Stable")) == ("consumer", "Stable")
    described = client.exchange(
        DESCRIBE_GROUPS, member.nearest(DESCRIBE_GROUPS), {"groups": [group], "include_authorized_operations": False}
    ).groups[0]
    assert (described.error_code, described.group_state, described.protocol_data) == (ErrorCode.none, "Stable", "range")
    (shown,) = described.members
    assert (shown.member_id, shown.client_id, shown.client_host) == (member.id, "a client", "/127.0.0.1")
    assert (shown.member_metadata, shown.member_assignment) == (b"what I want", b"what you get")

    assert delete(client, group, version=member.nearest(DELETE_GROUPS)) == [(group, ErrorCode.non_empty_group)]
    left = member.leave()
    assert left.error_code is ErrorCode.none
    assert [item.error_code for item in field(left, "members", ())] in ([], [ErrorCode.none])
    assert member.heartbeat() is ErrorCode.unknown_member_id
    assert delete(client, group, version=member.nearest(DELETE_GROUPS)) == [(group, ErrorCode.none)]
    assert delete(client, group, version=member.nearest(DELETE_GROUPS)) == [(group, ErrorCode.group_id_not_found)]


@pytest.mark.parametrize("version", range(8, 11))
def test_offsets_of_groups_in_several_partitions(full: Serving, fresh: Fresh, version: int) -> None:
    topic, groups = full.create(fresh("t")), groups_in_two_partitions(full, fresh)
    for offset, group in enumerate(groups):
        assert Member(full.client, group).commit((topic, 0, offset))[0][2] is ErrorCode.none
    one = [{"name": topic.name, "topic_id": topic.topic_id, "partition_indexes": [0]}]
    body = {
        "groups": [
            {"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}
            for group, topics in [(groups[0], one), (groups[1], one), (groups[1], None), ("nobody's", one)]
        ],
        "require_stable": True,
    }
    found = full.exchange(OFFSET_FETCH, version, body).groups
    assert [item.group_id for item in found] == [groups[0], groups[1], groups[1], "nobody's"]
    assert [item.topics[0].partitions[0].committed_offset for item in found] == [0, 1, 1, -1]
    assert {item.error_code for item in found} == {ErrorCode.none}


def test_groups_of_several_partitions_are_described_listed_and_deleted(full: Serving, fresh: Fresh) -> None:
    topic, groups = full.create(fresh("t")), groups_in_two_partitions(full, fresh)
    for group in groups:
        Member(full.client, group).commit((topic, 0, 1))
    nobody = fresh("nobody")
    names = [groups[1], nobody, groups[0], groups[1]]
    for version in versions_of(DESCRIBE_GROUPS):
        described = full.exchange(
            DESCRIBE_GROUPS, version, {"groups": names, "include_authorized_operations": False}
        ).groups
        assert [item.group_id for item in described] == names
        states = [item.group_state for item in described]
        assert states == ["Empty", "Dead", "Empty", "Empty"]
        gone = ErrorCode.group_id_not_found if version >= 6 else ErrorCode.none
        assert [item.error_code for item in described] == [ErrorCode.none, gone, ErrorCode.none, ErrorCode.none]
    listed = full.exchange(LIST_GROUPS, 5, {"states_filter": ["Empty"], "types_filter": ["classic"]}).groups
    assert set(groups) <= {item.group_id for item in listed}
    assert all((item.group_state, item.group_type) == ("Empty", "classic") for item in listed)
    assert delete(full.client, *names) == [
        (groups[1], ErrorCode.none),
        (nobody, ErrorCode.group_id_not_found),
        (groups[0], ErrorCode.none),
    ]


@pytest.mark.parametrize(
    "group",
    ["a/b/../c", "two\nlines\x00\t", "grüppe 🦔 " * 3, "x" * 4096, "..", " ", "{}\"'\\", "\u202e\ufeff"],
    ids=["slashes", "control", "emoji", "long", "dots", "blank", "quotes", "direction"],
)
@pytest.mark.parametrize("client_id", [None, "", "🦔/\n"], ids=["null", "empty", "odd"])
def test_odd_names(full: Serving, fresh: Fresh, group: str, client_id: str | None) -> None:
    topic = full.create(fresh("t"))
    with full.connect(client_id) as client:
        find(client, 4, group)
        member = Member(client, group)
        assert member.join().error_code is ErrorCode.none
        assert member.sync({member.id: b"all"}).assignment == b"all"
        assert member.commit((topic, 0, 7)) == [(topic.topic_id, 0, ErrorCode.none)]
        assert member.committed([topic])[0][1] == 7
        (described,) = client.exchange(
            DESCRIBE_GROUPS, 6, {"groups": [group], "include_authorized_operations": False}
        ).groups
        assert (described.group_id, described.members[0].client_id) == (group, client_id or "")
        assert member.leave().members[0].error_code is ErrorCode.none
        assert delete(client, group) == [(group, ErrorCode.none)]


def test_a_group_whose_actor_is_down_is_loading(full: Serving, fresh: Fresh) -> None:
    """Responses while an offsets partition starts, in every version."""
    with coordinators_down(full):
        for version in range(11):
            member = Member(full.client, "g", version)
            loading = ErrorCode.coordinator_load_in_progress
            member.request_join()
            assert member.joined().error_code is loading
            assert member.heartbeat() is ErrorCode.none
            assert member.sync({}).error_code is ErrorCode.not_coordinator
            assert member.leave().error_code is loading
            topic = full.create(f"loading-{version}")
            assert member.commit((topic, 0, 1), (NOBODY, 0, 1))[1][2] is loading
            assert delete(full.client, "g", version=member.nearest(DELETE_GROUPS)) == [("g", loading)]
            (described,) = full.exchange(
                DESCRIBE_GROUPS,
                member.nearest(DESCRIBE_GROUPS),
                {"groups": ["g"], "include_authorized_operations": False},
            ).groups
            assert described.error_code is loading
            filters: dict[str, list[str]] = {"states_filter": [], "types_filter": []}
            listed = full.exchange(LIST_GROUPS, member.nearest(LIST_GROUPS), filters)
            assert (listed.error_code, listed.groups) == (loading, ())


def test_a_failed_fetch_while_the_actor_is_down(full: Serving, fresh: Fresh) -> None:
    """v1 has only partitions to carry the error, v2-7 the whole response, later versions each group."""
    topic = full.create(fresh("t"))
    topics = [{"name": topic.name, "topic_id": topic.topic_id, "partition_indexes": [0, 1]}]
    wanted = {"group_id": "g", "member_id": None, "member_epoch": -1, "topics": topics}
    loading = ErrorCode.coordinator_load_in_progress
    with coordinators_down(full):
        for version in versions_of(OFFSET_FETCH):
            response = full.exchange(OFFSET_FETCH, version, {**wanted, "groups": [wanted], "require_stable": False})
            if version == 1:
                errors = [(item.partition_index, item.error_code) for item in response.topics[0].partitions]
                assert errors == [(0, loading), (1, loading)]
            else:
                found = response.groups[0] if version >= 8 else response
                assert (found.error_code, found.topics) == (loading, ())


def test_wrong_arguments_are_reported_before_the_state_of_the_coordinator(full: Serving) -> None:
    with coordinators_down(full):
        for version in versions_of(JOIN_GROUP):
            member = Member(full.client, "g", version)
            for session_timeout_ms in (99, 1_800_001):
                member.request_join(session_timeout_ms)
                assert member.joined().error_code is ErrorCode.invalid_session_timeout
            unattributed = Member(full.client, "", version)
            unattributed.request_join(session_timeout_ms=99)
            assert unattributed.joined().error_code is ErrorCode.invalid_group_id
            assert unattributed.heartbeat() is ErrorCode.invalid_group_id
            assert unattributed.leave().error_code is ErrorCode.invalid_group_id
            assert unattributed.sync({}).error_code is ErrorCode.invalid_group_id
        typeless = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None, "assignments": []}
        for protocol in (
            {"protocol_type": None, "protocol_name": "range"},
            {"protocol_type": "x", "protocol_name": None},
        ):
            refused = full.exchange(SYNC_GROUP, 5, typeless | protocol)
            assert refused.error_code is ErrorCode.inconsistent_group_protocol


OF_CONSUMERS = {
    *("JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat"),
    *("OffsetCommit", "TxnOffsetCommit"),
}
"""Sent by the group's own consumers and their producers only; others are about other groups, too (OffsetFetch),
or end a membership (LeaveGroup)."""


@pytest.mark.parametrize(
    ("api_key", "version"),
    [
        pytest.param(key, version, id=f"{api.name}-{version}")
        for key, api in sorted(APIS.items())
        for version in sorted({api.versions[0], api.versions[-1]})
    ],
)
def test_requests_of_consumers_alone_are_evidence(full: Serving, fresh: Fresh, api_key: int, version: int) -> None:
    topic, group = full.create(fresh("t")), fresh("g")
    with full.connect() as client:
        client.exchange(api_key, version, body_of(api_key, topic, group))
        (connection,) = (each for each in full.gateway.connections.values() if each.port == client.port)
        found = connection.attribution.group_of("a client")
    assert found == (group if APIS[api_key].name in OF_CONSUMERS else None)
