"""A cluster of hosts, from nothing to its end. The tests are steps: each continues where the one before it ended."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos.journal import now_s
from tests.hosts import installing
from tests.hosts.cluster import ZOOKEEPER_PORT, Cluster
from tests.hosts.everywhere import java_reaches, library_reaches
from tests.hosts.host import Host
from tests.hosts.load import GROUPS, Load
from tests.hosts.network import Network
from tests.hosts.report import Report
from tests.muster_process import eventually

pytestmark = pytest.mark.timeout(900)

_EXECUTOR = "io.ray.runtime.runner.worker.DefaultWorker"
_SPARK_S = 400.0
_SECOND_VERSION = "0.1.1"
READY_GOAL_S, LOST_GOAL_S, CUT_GOAL_S, MOVE_GOAL_S, HEAD_GOAL_S = 90.0, 3.0, 6.0, 0.5, 15.0


class Watch:
    """Prints what clients saw of a step, once all of them continue."""

    def __init__(self, load: Load, report: Report) -> None:
        self._load, self._report = load, report

    @contextmanager
    def step(self, what: str, goal_s: float | None = None) -> Iterator[list[str]]:
        """Take a step; yields texts that the block may add to the description."""
        began_s, more = now_s(), list[str]()
        yield more
        self._load.until_all_go(now_s())
        self._report.step("; ".join([what, *more]), now_s() - began_s, self._load.gaps(began_s), goal_s)


@pytest.fixture
def watch(load: Load, report: Report) -> Watch:
    return Watch(load, report)


def test_ray_up_from_nothing(cluster: Cluster, report: Report) -> None:
    """Every host installs the committed tree; Muster starts by itself, with a gateway on each host's own address."""
    began_s = time.monotonic()
    cluster.up()
    report.took("1. ray up, from empty hosts until Muster is ready", time.monotonic() - began_s, READY_GOAL_S)
    assert sorted(cluster.ready()["bootstrap"]) == sorted(cluster.bootstrap.split(","))
    cluster.until_serving(cluster.hosts)


@pytest.mark.parametrize("library", ["confluent-kafka", "kafka-python"])
def test_clients_reach_every_gateway(cluster: Cluster, library: str) -> None:
    for host in cluster.hosts:
        library_reaches(library, host.address, {host.address for host in cluster.hosts})


def test_java_clients_reach_every_gateway(cluster: Cluster) -> None:
    java_reaches([host.address for host in cluster.hosts])


def test_clients_without_a_fault(cluster: Cluster, watch: Watch) -> None:
    """Figures of the other steps have to be compared with these."""
    with watch.step("2. no fault"):
        cluster.until_serving(cluster.hosts)


def test_a_host_is_killed_and_returns(cluster: Cluster, load: Load, watch: Watch) -> None:
    places = cluster.until_serving(cluster.hosts)
    lost = cluster.busiest(places, load.used)
    with watch.step(f"3. {of(places, lost)} is killed", LOST_GOAL_S) as more:
        lost.power_off()
        more.append(until_serving(cluster, lost))
    with watch.step(f"4. {lost.name} is switched on again", MOVE_GOAL_S) as more:
        lost.power_on()
        more.append(until_serving(cluster))


def test_a_host_is_cut_off_and_healed(cluster: Cluster, network: Network, load: Load, watch: Watch) -> None:
    """Meanwhile its actors are alive on the other side."""
    places = cluster.until_serving(cluster.hosts)
    lost = cluster.busiest(places, load.used)
    before = actors(lost)
    with watch.step(f"5. {of(places, lost)} is cut off", CUT_GOAL_S) as more:
        network.cut(lost.name)
        more.append(until_serving(cluster, lost))
    more.append(f"{len(before & actors(lost))} of its {len(before)} actors are still alive there")
    with watch.step(f"6. {lost.name} is healed", MOVE_GOAL_S) as more:
        network.heal(lost.name)
        more.append(until_serving(cluster))
    eventually(lambda: before & actors(lost), lambda left: not left, "the actors of the other side have ended", 60)


def test_a_host_is_drained(cluster: Cluster, load: Load, watch: Watch) -> None:
    places = cluster.until_serving(cluster.hosts)
    drained = cluster.busiest(places, load.used)
    with watch.step(f"7. {of(places, drained)} is drained", MOVE_GOAL_S):
        cluster.muster(f"drain {drained.address}", 300)
    with watch.step(f"8. {drained.name} may have actors again", MOVE_GOAL_S) as more:
        cluster.muster(f"drain {drained.address} --undo")
        more.append(until_serving(cluster))


def test_a_host_is_added(cluster: Cluster, hosts: dict[str, Host], watch: Watch) -> None:
    new = hosts["w4"]
    new.power_on()
    cluster.workers.append(new)
    cluster.write()
    with watch.step("9. w4 is added to cluster.yaml, ray up --no-restart", MOVE_GOAL_S) as more:
        cluster.up("--no-restart")
        more.append(until_serving(cluster))


def test_spark_with_executors_on_two_hosts(cluster: Cluster, load: Load, watch: Watch) -> None:
    """Each takes all cores of a host."""
    command = f"spark consumption --executors 2 --executor-cores {os.cpu_count()} --format json"
    with watch.step("10. muster spark consumption") as more, ThreadPoolExecutor(1) as beside:
        running = beside.submit(cluster.muster, command, _SPARK_S)
        used: set[str] = set()
        while not running.done():
            used |= {
                host.name for host in cluster.hosts if any(_EXECUTOR in line for line in host.processes().values())
            }
            time.sleep(0.5)
        found = running.result()
        more.append(f"with executors on {', '.join(sorted(used))}")
    assert all(group in found for group in GROUPS.values()), found
    assert len(used) > 1


def test_ray_does_not_start_at_first(cluster: Cluster, load: Load, watch: Watch) -> None:
    """Ray's autoscaler gives a host up whose command has failed once, so the command has to try again."""
    worker = cluster.workers[0]
    package = worker.done("python -c 'import ray; print(ray.__path__[0])'").strip()
    raylet = f"{package}/core/src/ray/raylet/raylet"
    ends = f"#!/bin/sh\\nmv {raylet}.whole {raylet}\\nexit 1\\n"
    worker.done(f"mv {raylet} {raylet}.whole; printf '{ends}' > {raylet}; chmod +x {raylet}")
    with watch.step(f"11. Ray of {worker.name} is stopped, and does not start at first") as more:
        worker.done("ray stop")
        eventually(
            lambda: worker.run(f"test -e {raylet}.whole").returncode, lambda gone: gone, "a raylet has failed", 60
        )
        more.append(until_serving(cluster))


@pytest.mark.timeout(1800)
def test_a_rolling_upgrade(cluster: Cluster, folder: Path, load: Load, watch: Watch) -> None:
    """Installed everywhere beside what runs, then host by host; the head, which has Ray's GCS, last."""
    since_s = now_s()
    installing.build(folder, _SECOND_VERSION)
    cluster.build += 1
    cluster.write()
    with watch.step("12. another version is installed, ray up --no-restart"):
        cluster.up("--no-restart")
        eventually(cluster.versions, lambda found: found == {_SECOND_VERSION}, "every host has it", 300)
    copied = {path.name for path in (cluster.head.home / "muster").iterdir()}
    assert not copied & {"build", "muster_kafka.egg-info"}, "built where the autoscaler copies from"
    for worker in cluster.workers:
        with watch.step(f"13. {worker.name} is drained, its Ray restarted", MOVE_GOAL_S) as more:
            cluster.muster(f"drain {worker.address}", 300)
            worker.done("ray stop")
            more.append(until_serving(cluster))
    with watch.step("13. the head: ray up") as more:
        down_s = now_s()
        cluster.up()
        load.down(down_s)
        more.append(until_serving(cluster))
    rebalances = {library: gaps.rebalances for library, gaps in load.gaps(since_s).items()}
    assert all(count <= 1 for count in rebalances.values()), rebalances


def test_the_head_is_killed_and_returns(cluster: Cluster, load: Load, watch: Watch) -> None:
    places = cluster.until_serving(cluster.hosts)
    with watch.step(f"14. {of(places, cluster.head)} is killed, ray up again", HEAD_GOAL_S) as more:
        since_s = now_s()
        cluster.head.power_off()
        cluster.head.power_on()
        cluster.up()
        load.down(since_s)
        more.append(f"ready again after {now_s() - since_s:.1f} s")
        more.append(until_serving(cluster))


def test_ray_down_and_up_on_the_same_storage(cluster: Cluster, load: Load, watch: Watch) -> None:
    with watch.step("15. ray down, ray up") as more:
        since_s = now_s()
        cluster.down()
        more.append(f"down after {now_s() - since_s:.1f} s")
        cluster.up()
        load.down(since_s)
        more.append(until_serving(cluster))


def test_what_is_elsewhere_outlives_the_head(
    cluster: Cluster, hosts: dict[str, Host], folder: Path, load: Load, watch: Watch
) -> None:
    """The GCS finds its state on the head's disk, and the autoscaler its list of hosts. ZooKeeper is elsewhere."""
    store = hosts["store"]
    with watch.step("16. ray down, ray up with ZooKeeper on another host"):
        since_s = now_s()
        cluster.down()
        shutil.copytree(newest_data(cluster), folder / "storage/zookeeper/version-2")
        zookeeper = f"{sys.executable} -m tests.hosts.zookeeper {store.address} {ZOOKEEPER_PORT}"
        store.start(f"env PYTHONPATH={installing.ROOT} {zookeeper}")
        cluster.store = store
        cluster.write()
        cluster.up()
        load.down(since_s)
        until_serving(cluster)
    places = cluster.until_serving(cluster.hosts)
    before = cluster.gateways()
    with watch.step(f"17. {of(places, cluster.head)} is killed, its Ray started again", HEAD_GOAL_S) as more:
        since_s = now_s()
        cluster.head.power_off()
        cluster.head.power_on()
        cluster.start_ray_on_head()
        more.append(f"Ray runs again after {now_s() - since_s:.1f} s")
        more.append(until_serving(cluster))
    assert {place for place, _ in before.items() - cluster.gateways().items()} == {cluster.head.address}


def test_nothing_is_lost(load: Load, report: Report) -> None:
    """No acknowledged record or commit, in all of the steps; no client gave up, and none was stuck."""
    violations = load.finish()
    print(f"\n\n{report.all()}\n")
    assert not violations, "\n".join(f"{violation.rule}: {violation.text}" for violation in violations)


def until_serving(cluster: Cluster, *lost: Host) -> str:
    """Wait until Muster serves on all hosts but these."""
    since_s = time.monotonic()
    cluster.until_serving([host for host in cluster.hosts if host not in lost])
    return f"all serves after {time.monotonic() - since_s:.1f} s"


def newest_data(cluster: Cluster) -> Path:
    """Return the data of the ZooKeeper server of Muster's own that wrote last."""
    found = (data for host in cluster.hosts for data in (host.home / ".muster/zookeeper").glob("*/*/version-2"))
    return max(found, key=lambda data: max(log.stat().st_mtime_ns for log in data.glob("log.*")))


def of(places: dict[str, str], host: Host) -> str:
    """Return the host, and what runs there."""
    return f"{host.name} ({', '.join(sorted(name for name, place in places.items() if place == host.name))})"


def actors(host: Host) -> set[int]:
    """Return the processes of actors on the host."""
    return {
        pid
        for pid, command in host.processes().items()
        if command.startswith("ray::")
        and not command.startswith(("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnv"))
    }
