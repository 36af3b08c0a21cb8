"""Nodes are lost and added while real clients work; the clients must not notice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import psutil
import pytest

from pytest_muster import FaultClient
from tests.muster_process import eventually
from tests.nodes.bench import SETTLED_S, Bench, moved
from tests.nodes.work import work


@pytest.mark.timeout(600)
def test_a_node_is_lost_and_another_comes(on_nodes: Bench, fresh: Callable[[str], str]) -> None:
    nodes = on_nodes.nodes
    with work(on_nodes, fresh) as clients:
        before = on_nodes.until_placed()
        stable = clients.stability()
        lost = max(
            (node for node in nodes.nodes.values() if node.node_id not in (nodes.head.node_id, before["controller"])),
            key=lambda node: [*moved(before).values()].count(node.node_id),
        )
        assert lost.node_id in moved(before).values()

        nodes.kill(lost)
        clients.go_on()
        without = on_nodes.until_placed()
        assert moved(without).keys() == moved(before).keys()
        assert {node["node_id"] for node in on_nodes.status()["nodes"]} == set(nodes.nodes)
        clients.go_on()
        assert clients.stability() == stable

        came = nodes.add()
        after = on_nodes.until_placed()
        clients.go_on()
        assert {after[name] for name in moved(without) if without[name] != after[name]} == {came.node_id}
        assert clients.stability() == stable


@pytest.mark.timeout(600)
def test_a_standby_that_hangs_is_replaced(on_nodes: Bench) -> None:
    """Not on the controller's node, so no other process of Muster can send signals there: Ray ends the standby."""
    homes = on_nodes.until_settled()
    standby = next(n for n, home in homes.items() if n.startswith("standby-") and home != homes["controller"])
    process = psutil.Process(pid_of(on_nodes, standby))
    process.suspend()
    try:
        eventually(
            lambda: pid_of(on_nodes, standby), lambda pid: pid not in (None, process.pid), "another process", SETTLED_S
        )
        eventually(process.is_running, lambda running: not running, "the end of the one that hung", SETTLED_S)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()
    on_nodes.until_settled()


@pytest.mark.timeout(600)
def test_faults_reach_actors_of_other_nodes(on_nodes: Bench) -> None:
    """On nodes without the controller, the standby sends the signals.

    By HTTP, since a pause from one command to the next may be longer than Ray's RPC keepalive on these nodes. Should
    the actor be replaced nevertheless, the next fault waits for the actor's next process.
    """
    homes = on_nodes.until_settled()
    name = next(name for name, home in homes.items() if name.startswith("log-") and home != homes["controller"])
    faults = FaultClient(*(actor["metrics_url"] for actor in on_nodes.status()["actors"] if actor["metrics_url"]))

    process = psutil.Process(pid_of(on_nodes, name))
    faults.pause(name)
    assert process.status() == psutil.STATUS_STOPPED
    faults.resume(name)
    stopped = lambda: process.is_running() and process.status() == psutil.STATUS_STOPPED  # noqa: E731
    eventually(stopped, lambda now: not now, "it runs on")

    eventually(lambda: faults.slow(name, 0.5), bool, "the actor slows down", SETTLED_S)
    process = psutil.Process(pid_of(on_nodes, name))
    eventually(process.status, lambda status: status == psutil.STATUS_STOPPED, "it is stopped now and then")
    eventually(process.status, lambda status: status != psutil.STATUS_STOPPED, "it runs now and then")
    faults.clear()

    on_nodes.muster.cli("fault", "kill", name)
    eventually(process.is_running, lambda running: not running, "its end")
    eventually(lambda: pid_of(on_nodes, name), lambda pid: pid not in (None, process.pid), "another process", SETTLED_S)
    on_nodes.until_settled()


def pid_of(bench: Bench, name: str) -> int | None:
    """Return the pid of an actor that serves."""
    (actor,) = (actor for actor in bench.status()["actors"] if actor["name"] == name)
    return actor["pid"] if actor["state"] == "alive" else None
