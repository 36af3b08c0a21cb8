"""Effects of `ray up` and `ray down` on the head, with the commands of cluster.yaml themselves, on a separate host."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.muster_process import eventually
from tests.nodes.launched.lone_host import ADDRESS, ROOT, LoneHost

pytestmark = pytest.mark.ring(name="launched")

BOOTSTRAP = f"{ADDRESS}:9092"
METRICS = f" metrics=http://{ADDRESS}:9404/metrics "
ZOOKEEPER = "ZooKeeperServerMain"
WAIT_S = 60
ELSEWHERE = "runs on this Ray, on storage /srv/muster; stop it with muster down --storage /srv/muster"
NO_ACTORS = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Process titles of an idle Ray."""
OURS = re.compile(r" *\d+\.\d s  |muster ready |muster: ")
"""Output of ``muster up``."""
LISTENS = re.compile(r"LISTEN .*?:(\d+) .*? users:(.*)")
"""A line of ss: the port, and the processes."""


class Head(LoneHost):
    """A single node, and the commands that `ray up` and `ray down` run on it."""

    @property
    def start_commands(self) -> list[str]:
        """The start commands of a head without hosts; the autoscaler has nothing to do."""
        commands = yaml.safe_load((ROOT / "cluster.yaml").read_text())["head_start_ray_commands"]
        autoscaling = "--autoscaling-config=~/ray_bootstrap_config.yaml"
        return [command.replace("--nodes 3", "--nodes 1").replace(autoscaling, "") for command in commands]

    def ray_up(self, options: str = "") -> str:
        """Run all start commands in order, each of which must succeed; the output of the last one, with the options."""
        *before, last = self.start_commands
        for command in before:
            self.done(command)
        return self.done(f"{last} {options}")

    def ray_down(self) -> None:
        self.done("ray stop")

    def muster_up(self) -> int:
        """Return the pid of the running muster up."""
        (pid,) = (pid for pid, line in self.processes().items() if "muster up" in line)
        return pid

    def ports_of_actors(self) -> dict[str, set[int]]:
        """TCP ports of each log and offsets actor: those for gateways of other nodes, and Ray's own."""
        status = json.loads(self.done("muster status --storage /srv/muster --json"))
        listens = [LISTENS.fullmatch(line) for line in self.done("ss -Hltnp").splitlines()]
        return {
            actor["name"]: {int(found[1]) for found in listens if found and f"pid={actor['pid']}," in found[2]}
            for actor in status["actors"]
            if actor["name"].startswith(("log-", "offsets-"))
        }

    def kill_muster_up(self) -> None:
        """SIGKILL; returns when its ZooKeeper has ended too."""
        self.done(f"kill -9 {self.muster_up()}")
        eventually(self.processes, lambda left: not any(ZOOKEEPER in line for line in left.values()), "ZooKeeper ends")

    @contextmanager
    def paused(self, title: str) -> Iterator[None]:
        """Stop the process with that title inside the block, unless it is replaced meanwhile."""
        (pid,) = (pid for pid, line in self.processes().items() if line.startswith(title))
        self.done(f"kill -STOP {pid}")
        try:
            yield
        finally:
            self.run(f"kill -CONT {pid}")

    def until_nothing_runs(self) -> None:
        eventually(self.processes, lambda left: not left, "every process has ended", WAIT_S)


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    with Head(tmp_path) as host:
        yield host


@pytest.mark.timeout(900)
def test_ray_up_twice_and_ray_down_and_up(head: Head) -> None:
    """Though Ray does not start at first."""
    head.kill_next_raylet()
    said = head.ray_up()
    assert f"muster ready bootstrap={BOOTSTRAP} " in said
    assert METRICS in said
    head.done(f"python -m tests.nodes.records write {BOOTSTRAP} 0")
    first = head.muster_up()

    said = head.ray_up()
    assert "muster ready" in said
    assert METRICS in said, "a Prometheus need not be reconfigured"
    assert head.muster_up() != first
    assert sum(ZOOKEEPER in line for line in head.processes().values()) == 1
    head.done(f"python -m tests.nodes.records read {BOOTSTRAP} 100")
    head.done(f"python -m tests.nodes.records write {BOOTSTRAP} 100")

    head.ray_down()
    head.until_nothing_runs()
    assert not (head.home / "muster-ready.json").exists()
    code, said = head.run("muster status --storage /srv/muster")
    assert (code, "no muster runs on storage /srv/muster" in said) == (1, True)
    log = (head.home / "muster.log").read_text().splitlines()
    assert log[-1].startswith(
        f"muster: Ray at {ADDRESS}:6379 is no longer running on this host: its raylet has ended; "
    ), log
    assert [line for line in log if not OURS.match(line)] == [], "other lines than ours, such as those of raylets"

    assert "muster ready" in head.ray_up("--set actor.port.range=21000-21199")
    head.done(f"python -m tests.nodes.records read {BOOTSTRAP} 200")
    opened = range(21000, 21200)
    ports = {name: [port for port in listens if port in opened] for name, listens in head.ports_of_actors().items()}
    assert "log-0" in ports
    assert {name: len(found) for name, found in ports.items()} == dict.fromkeys(ports, 1), "one that is opened for it"


@pytest.mark.timeout(900)
def test_a_killed_muster_up_is_reported_ended_and_taken_over(head: Head) -> None:
    """Its actors continue to serve, without its ZooKeeper."""
    head.ray_up()
    head.done(f"python -m tests.nodes.records write {BOOTSTRAP} 0")
    head.kill_muster_up()
    head.done(f"python -m tests.nodes.records read {BOOTSTRAP} 100")
    status = head.done("muster status --storage /srv/muster")
    assert "was killed, but its actors still serve" in status
    assert "gateway-1" in status
    code, said = head.run("muster up --storage /srv/muster --port 0")
    assert code == 1
    assert f"its actors still serve on Ray at {ADDRESS}:6379; take over with --address" in said
    code, said = head.run("RAY_AUTH_MODE=token muster up --address auto --insecure --storage /srv/other --port 0")
    assert code == 1
    assert ELSEWHERE in said
    with head.paused("ray::Controller"):
        code, said = head.run("RAY_AUTH_MODE=token muster up --address auto --insecure --storage /srv/other --port 0")
    assert (code, ELSEWHERE in said) == (1, True), "whose actors these are is known without the controller, too"
    head.done(f"python -m tests.nodes.records read {BOOTSTRAP} 100")

    assert "taking over" in head.done(head.start_commands[-1])
    head.done(f"python -m tests.nodes.records read {BOOTSTRAP} 100")

    head.kill_muster_up()
    assert "stopping the actors that the killed muster up" in head.done("muster down --storage /srv/muster")
    for command in ("status", "down"):
        code, said = head.run(f"muster {command} --storage /srv/muster")
        assert code == 1
        assert "no muster runs on storage /srv/muster" in said
    workers = [line for line in head.processes().values() if line.startswith("ray::")]
    assert [line for line in workers if not line.startswith(NO_ACTORS)] == [], "actors are left"
