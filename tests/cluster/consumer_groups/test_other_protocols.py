"""``muster groups`` with groups of other protocol types: Connect's workers, and an unknown type."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.cluster.consumer_groups.test_groups_cli import Fresh, output, refusal, run
from tests.gateway.group_client import Member, find
from tests.gateway.serving import Client
from tests.group.test_connect_protocol import assignment, revoked, subscription
from tests.muster_process import Muster, eventually

JOINED_WITH = subscription(2, assignment(2, {"sink": [-1, 0], "gone": [0]}, more=revoked({})))
TASKS = assignment(2, {"source": [2]}, more=revoked({"gone": [0]}))
"""The changed fields: the worker keeps the others."""
RAW = b'{"version":1}'


@dataclass
class Workers:
    """One worker of Connect, and one of a schema registry."""

    connect: Member
    registry: Member


@pytest.fixture
def workers(muster: Muster, fresh: Fresh) -> Iterator[Workers]:
    port = int(muster.bootstrap.split(",")[0].rpartition(":")[2])
    with ExitStack() as open_ones:
        members = []
        for protocol_type, data in (("connect", TASKS), ("sr", RAW)):
            client = open_ones.enter_context(Client(port, f"{protocol_type}-worker"))
            group = fresh("workers")
            find(client, 4, group)
            member = Member(client, group, protocol_type=protocol_type)
            member.join(session_timeout_ms=300_000, metadata=JOINED_WITH)
            member.sync({member.id: data})
            members.append(member)
        yield Workers(*members)


def test_they_are_listed_with_their_type_and_described(muster: Muster, workers: Workers) -> None:
    connect, registry = workers.connect, workers.registry
    listed = {row["group"]: row for row in output(muster, "list")}
    assert listed[connect.group] == {
        "group": connect.group,
        "state": "Stable",
        "type": "classic",
        "protocol_type": "connect",
        "simple": False,
        "members": 1,
        "lag": None,
        "lag_s": None,
        "behind": 0,
        "partitions": 0,
        "without_commit": 0,
        "messages_without_commit": 0,
        "unread": None,
    }
    assert listed[registry.group]["protocol_type"] == "sr"
    assert connect.group in {row["group"] for row in output(muster, "list", "--state", "stable", bootstrap=True)}
    assert connect.group not in {row["group"] for row in output(muster, "list", "--state", "Empty")}
    line = next(line for line in run(muster, "list").stdout.splitlines() if line.split()[0] == connect.group)
    assert line.split() == [connect.group, "Stable", "classic", "connect", "1", "-", "-", "0"]

    for bootstrap in (False, True):
        shown = output(muster, "describe", connect.group, bootstrap=bootstrap)
        assert (shown["state"], shown["protocol_type"], shown["protocol"]) == ("Stable", "connect", "range")
        assert shown["offsets"] == []
        (member,) = shown["members"]
        assert (member["member_id"], member["client_id"]) == (connect.id, "connect-worker")
        assert member["assignment"] == [
            {"connector": "sink", "task": None},
            {"connector": "sink", "task": 0},
            {"connector": "source", "task": 2},
        ]
    assert "sink, sink-0, source-2" in run(muster, "describe", connect.group).stdout
    (member,) = output(muster, "describe", registry.group)["members"]
    assert base64.b64decode(member["assignment"]["base64"]) == RAW
    assert f"{len(RAW)} bytes" in run(muster, "describe", registry.group).stdout


def test_their_history_eviction_and_deletion_are_as_for_other_groups(muster: Muster, workers: Workers) -> None:
    connect = workers.connect
    (rebalance,) = output(muster, "history", connect.group)["entries"]
    assert (rebalance["protocol_type"], rebalance["partitions_assigned"]) == ("connect", None)
    assert "range (connect)" in run(muster, "history", connect.group).stdout
    for where in (["--to-earliest", "--topic", "t"], ["--undo"]):
        line = refusal(muster, "reset-offsets", connect.group, *where)
        assert f"group {connect.group} has protocol type connect: only consumer groups have offsets" in line
    assert f"{connect.id} (client connect-worker on 127.0.0.1)" in refusal(muster, "delete", connect.group)
    with Client(int(muster.bootstrap.split(",")[0].rpartition(":")[2]), "late") as late:
        Member(late, connect.group, protocol_type="connect", instance="late").request_join()
        waits = eventually(
            lambda: [each for each in output(muster, "waiting")["groups"] if each["group"] == connect.group],
            bool,
            "the rebalance waits",
        )
        assert [who["member_id"] for who in waits[0]["members"]] == [connect.id]
        assert f"evicted {connect.id}" in run(muster, "evict", connect.group, connect.id).stderr
        assert "evicted late" in run(muster, "evict", connect.group, "late").stderr
    assert output(muster, "describe", connect.group)["state"] == "Empty"
    assert run(muster, "delete", connect.group).returncode == 0
    assert f"there is no group {connect.group}" in refusal(muster, "describe", connect.group)
