"""``muster mapping`` and the reconciler's metrics, with a running Muster and a real client."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from muster.placement.hashing import partition_for
from muster.placement.mapping.nodes import encode_registration, registration_path
from tests.cluster.consumer_groups.members import ConfluentMember
from tests.cluster.test_failover import create, working
from tests.muster_process import Muster, eventually
from tests.placement.strategies import registration

pytestmark = [pytest.mark.ring(name="failover"), pytest.mark.timeout(600)]

WAIT_S = 60
OFFSETS_PARTITIONS = 50


def output(muster: Muster, *arguments: str) -> tuple[int, dict[str, Any] | list[dict[str, Any]]]:
    """Exit code and JSON output."""
    done = muster.run("mapping", *arguments, "--format", "json")
    return done.returncode, json.loads(done.stdout)


def test_it_is_listed_checked_and_repaired(muster: Muster, fresh: Callable[[str], str]) -> None:
    topic, group, client_id = fresh("t"), fresh("g"), fresh("client")
    create(muster, topic)
    partition = partition_for(group, OFFSETS_PARTITIONS)
    ghost = registration(group, "ghost", client_id=client_id, host="127.0.0.1", offsets_partition=partition)
    zk = muster.zookeeper()
    try:
        with working(ConfluentMember(muster.bootstrap, topic, group, **{"client.id": client_id})):
            eventually(
                lambda: output(muster, "list", "--group", group)[1],
                lambda rows: {row["kind"] for row in rows} == {"member", "kop"},  # type: ignore[index]
                "the member and KoP's node are there",
                WAIT_S,
            )
            assert output(muster, "check", "--group", group)[0] == 0
            zk.create(registration_path(ghost), encode_registration(ghost))
            code, found = output(muster, "check", "--group", group)
            assert isinstance(found, dict)
            # the reconciler, which checks every second here, may have been first
            assert (code, [row["member"] for row in found["differences"]]) in ((1, ["ghost"]), (0, []))
            assert output(muster, "repair", "--dry-run", "--group", group)[0] == 0
            assert output(muster, "repair")[0] == 0
            assert not zk.exists(registration_path(ghost))
            _, rows = output(muster, "list", "--group", group)
            assert [row["kind"] for row in rows] == ["kop", "member"]  # type: ignore[index]
        url = muster.metrics_urls[0]
        assert b'muster_reconciler_rounds_total{gateway="1",outcome="done"}' in urllib.request.urlopen(url).read()
    finally:
        zk.shut()


@pytest.mark.parametrize(
    ("command", "code"),
    [("list", 1), ("check", 2), ("check --format json", 2), ("repair", 1), ("repair --dry-run --format json", 1)],
)
def test_what_nobody_knows_is_no_success(muster: Muster, command: str, code: int) -> None:
    done = muster.run("mapping", *command.split(), "--group", "bulling")
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == "muster: there is no node of group bulling; see muster mapping list\n"
