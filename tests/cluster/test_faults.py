"""Faults on a running cluster: actors by HTTP and by the command, two gateways, and the effects of a death."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.cli.storage import directory
from muster.placement.hashing import partition_for
from pytest_muster import FaultClient, UnknownTarget
from tests.gateway.http.event_stream import streaming
from tests.gateway.serving import Client
from tests.muster_process import STOP_S, Muster, eventually
from tests.table_rows import table_rows


@pytest.fixture
def faults(muster: Muster) -> Iterator[FaultClient]:
    client = FaultClient(*muster.ready["metrics"])
    yield client
    client.clear()


def state_of(pid: int) -> str:
    return str(psutil.Process(pid).status())


def pid_of(muster: Muster, actor: str) -> int:
    return int(muster.actors()[actor]["pid"])


def test_a_killed_actor_comes_back(muster: Muster, faults: FaultClient) -> None:
    pid = pid_of(muster, "reconciler")
    faults.kill("reconciler")
    muster.until_back("reconciler", pid)
    with pytest.raises(UnknownTarget, match="there is no offsets-4711"):
        faults.kill("offsets-4711")


def test_any_gateway_streams_faults_that_another_one_injects(muster: Muster, faults: FaultClient) -> None:
    first, second = (url.removesuffix("/metrics") for url in muster.ready["metrics"])

    async def scenario() -> tuple[str, list[Any]]:
        async with streaming(second, "?kind=fault") as stream, asyncio.timeout(STOP_S):
            await stream.place()
            injected = await asyncio.to_thread(
                FaultClient(first).inject, "error", error="NOT_COORDINATOR", group="nobody's"
            )
            await asyncio.to_thread(faults.clear, injected)
            return injected, [(await stream.next()).values for _ in range(2)]

    injected, found = asyncio.run(scenario())
    assert [(values["what"], values["fault"]["id"]) for values in found] == [
        ("injected", injected),
        ("cleared", injected),
    ]
    assert found[0]["fault"]["fault"]["group"] == "nobody's"


def test_the_command_finds_gateways_that_have_other_addresses_than_at_the_start(muster: Muster) -> None:
    """Gateways move like this on several nodes, once those of the start have been lost or drained."""
    state = directory.read_state(muster.storage)
    assert state is not None
    directory.write_state(muster.storage, dataclasses.replace(state, metrics=("http://127.0.0.1:1/metrics",)))
    try:
        assert json.loads(muster.cli("fault", "list", "--json")) == []
    finally:
        directory.write_state(muster.storage, state)


def test_the_tables_record_a_kill_the_loss_and_who_served_then(muster: Muster, fresh: Callable[[str], str]) -> None:
    group = fresh("killed")
    actor = f"offsets-{partition_for(group, 50)}"
    with Client(int(muster.ready["bootstrap"][0].rpartition(":")[2])) as client:
        body = {"key_type": 0, "coordinator_keys": [group]}
        eventually(
            lambda: client.exchange(10, 4, body).coordinators[0].error_code, lambda code: code == 0, f"{actor} starts"
        )
    fault_id = muster.cli("fault", "kill", "--group", group).strip()

    def events() -> list[dict[str, Any]]:
        """For the actor, from the kill on."""
        rows = [row for row in table_rows(muster.storage, "faults") if row["fault"] == fault_id]
        assert [row["event"] for row in rows] == ["injected", "fired"]
        began_ms = rows[0]["ts"]
        lives = [row for row in table_rows(muster.storage, "lifecycle") if row["actor"] == actor]
        return [*rows, *(row for row in lives if row["ts"] >= began_ms)]

    def is_back(rows: list[dict[str, Any]]) -> bool:
        last = rows[-1]
        return last["event"] == "serving" and not (last["reason"] or "").endswith("serves in its place")

    found = eventually(events, is_back, "the actor itself serves again")
    assert [row["ts"] for row in found] == sorted(row["ts"] for row in found)
    assert (found[1]["action"], found[1]["actor"], found[1]["group"]) == ("kill", actor, group)
    assert found[2]["event"] == "lost"
    assert found[2]["pid"] == json.loads(found[1]["detail"])["pid"] != found[-1]["pid"]
    assert "starting" in [row["event"] for row in found]
    epochs = [row["epoch"] for row in found[2:] if row["event"] != "starting"]
    assert epochs == sorted(set(epochs)), "each who serves has an epoch of its own"
    standby = [row for row in found[2:-1] if row["event"] == "serving"]
    assert all(row["reason"].startswith("standby-") for row in standby)


def test_a_paused_actor_is_stopped_until_it_is_continued_cleared_or_the_time_is_over(
    muster: Muster, faults: FaultClient
) -> None:
    pid = pid_of(muster, "reconciler")
    paused = faults.pause("reconciler")
    assert state_of(pid) == psutil.STATUS_STOPPED
    assert [(one["id"], one["actor"], one["pid"]) for one in faults.faults()] == [(paused, "reconciler", pid)]
    faults.resume("reconciler")
    assert not faults.faults()
    eventually(lambda: state_of(pid), lambda state: state != psutil.STATUS_STOPPED, "it runs on")
    paused = faults.pause("reconciler", expires_ms=3_000)
    assert state_of(pid) == psutil.STATUS_STOPPED
    eventually(lambda: state_of(pid), lambda state: state != psutil.STATUS_STOPPED, "it runs on after its time")
    eventually(faults.faults, lambda found: not found, "the fault is over")
    paused = faults.pause("reconciler")
    assert faults.clear() == [paused]
    eventually(lambda: state_of(pid), lambda state: state != psutil.STATUS_STOPPED, "it runs on when cleared")


def test_a_slow_actor_stops_and_runs_in_turn(muster: Muster, faults: FaultClient) -> None:
    pid = pid_of(muster, "reconciler")
    listed = json.loads(muster.cli("fault", "list", "--json"))
    assert listed == []
    slow = muster.cli("fault", "slow", "reconciler", "--speed", "0.5").strip()
    eventually(lambda: state_of(pid), lambda state: state == psutil.STATUS_STOPPED, "it is stopped now and then")
    eventually(lambda: state_of(pid), lambda state: state != psutil.STATUS_STOPPED, "it runs now and then")
    assert slow in muster.cli("fault", "list")
    assert muster.cli("fault", "continue", "reconciler").strip() == slow
    assert not faults.faults()


def test_a_pause_that_nobody_could_end_is_refused(muster: Muster, faults: FaultClient) -> None:
    with pytest.raises(UnknownTarget, match="needs expires_ms"):
        faults.pause("controller")


@pytest.mark.parametrize("actor", ["controller", "gateway-1"])
def test_who_takes_part_in_a_fault_can_be_paused_itself(muster: Muster, faults: FaultClient, actor: str) -> None:
    """The gateway that gets the request responds first."""
    pid = pid_of(muster, actor)
    fault = faults.pause(actor, expires_ms=3_000)
    eventually(lambda: state_of(pid), lambda state: state == psutil.STATUS_STOPPED, "it is stopped")
    eventually(lambda: state_of(pid), lambda state: state != psutil.STATUS_STOPPED, "it runs on")
    eventually(faults.faults, lambda found: fault not in [one["id"] for one in found], "the fault is over")


def test_once_is_once_over_all_gateways(muster: Muster, faults: FaultClient, fresh: Callable[[str], str]) -> None:
    """Twenty requests to each of two gateways at once: one of them meets the fault."""
    name = fresh("met-once")
    faults.inject("error", api="ListGroups", client_id=name, error="CLUSTER_AUTHORIZATION_FAILED", when="once")

    def errors(bootstrap: str) -> list[ErrorCode]:
        with Client(int(bootstrap.rpartition(":")[2]), name) as client:
            for _ in range(20):
                client.request(16, 4, {"states_filter": []})
            return [client.response(16, 4).error_code for _ in range(20)]

    with ThreadPoolExecutor(2) as threads:
        found = [error for each in threads.map(errors, muster.ready["bootstrap"]) for error in each]
    assert found.count(ErrorCode.cluster_authorization_failed) == 1
    assert found.count(ErrorCode.none) == 39


def test_a_killed_controller_leaves_the_faults_and_their_counts(
    muster: Muster, faults: FaultClient, fresh: Callable[[str], str]
) -> None:
    group, pid = fresh("g"), pid_of(muster, "controller")
    fault_id = faults.inject("error", api="FindCoordinator", group=group, error="NOT_COORDINATOR", when="once")
    muster.cli("groups", "delete", group, check=False)
    assert [one["hits"] for one in faults.faults()] == [1]
    faults.kill("controller")
    muster.until_back("controller", pid)
    found = eventually(faults.faults, bool, "the faults are known again")
    assert [(one["id"], one["hits"]) for one in found] == [(fault_id, 1)]


def test_a_gateway_that_comes_back_injects_what_is_in_force(
    muster: Muster, faults: FaultClient, fresh: Callable[[str], str]
) -> None:
    pid = pid_of(muster, "gateway-2")
    faults.inject("close", api="ListGroups", gateway=2)
    faults.kill("gateway-2")
    muster.until_back("gateway-2", pid)
    second = muster.actors()["gateway-2"]["address"]
    done = muster.cli("groups", "list", "--bootstrap-server", second, check=False)
    eventually(faults.faults, lambda found: found[0]["hits"] >= 1, f"gateway 2 closes connections: {done}")
