"""The cluster of cluster.yaml on hosts: ``ray up`` and ``ray down`` from a host of their own, and how it is."""

from __future__ import annotations

import json
import re
import secrets
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from tests.gateway.serving import Client
from tests.hosts.host import SHARED, Host
from tests.hosts.installing import ROOT

PORT, REDIS_PORT, ZOOKEEPER_PORT = 9092, 6379, 2181
Gcs = Literal["embedded", "redis", "memory"]
"""Where Ray's GCS keeps its state: in a directory of the head as cluster.yaml says, in a Redis, or nowhere."""
SERVE_S = 300.0
_METADATA = 3
_UP_S = 600.0
_AUTOSCALING = "--autoscaling-config=~/ray_bootstrap_config.yaml"
_POLL_S = 0.5


@dataclass
class Cluster:
    """``folder``: what the host ``box`` runs `ray up` on, with cluster.yaml, auth_token and dist/muster."""

    folder: Path
    key: Path
    box: Host
    head: Host
    workers: list[Host] = field(default_factory=list)
    build: int = 1
    """Counts what is installed on the hosts."""
    gcs: Gcs = "embedded"
    environment: dict[str, str] = field(default_factory=dict)
    """Variables of Ray and of all commands, on every host."""
    bucket: str | None = None
    """URI of the place in object storage on which Muster lives; each host then has a directory of its own."""
    store: Host | None = None
    """With the ZooKeeper and, if the GCS uses one, the Redis. None: ZooKeeper on the head."""

    @property
    def hosts(self) -> list[Host]:
        return [self.head, *self.workers]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host.address}:{PORT}" for host in self.hosts)

    def write(self) -> None:
        """cluster.yaml with the values of this cluster in the lines that are marked EDIT, and its token."""
        addresses = [worker.address for worker in self.workers]
        text = edited((ROOT / "cluster.yaml").read_text(), self.head.address, addresses, self.key, self.build)
        if self.gcs != "embedded":
            text = with_gcs(text, f"{self.store.address}:{REDIS_PORT}" if self.store and self.gcs == "redis" else None)
        if self.store is not None:
            text = with_zookeeper(text, f"{self.store.address}:{ZOOKEEPER_PORT}")
        if self.bucket is not None:
            text = with_bucket(text, self.bucket)
        (self.folder / "cluster.yaml").write_text(text)
        token = self.folder / "auth_token"
        if not token.exists():
            token.touch(mode=0o600)
            token.write_text(secrets.token_hex(32))

    def up(self, *options: str) -> str:
        """``ray up`` with the options; its output."""
        return self._ray("up", *options)

    def down(self) -> str:
        return self._ray("down")

    def _ray(self, command: str, *options: str) -> str:
        words = " ".join([f"{sys.prefix}/bin/ray {command} cluster.yaml -y", *options])
        finished = self.box.run(f"cd {self.folder} && RAY_UP_enable_autoscaler_v2=0 {words} 2>&1", _UP_S)
        (self.folder / f"ray-{command}.log").write_text(finished.stdout)
        assert finished.returncode == 0, f"ray {command}: exit code {finished.returncode}\n{finished.stdout[-6000:]}"
        return finished.stdout

    def write_without_autoscaler(self) -> None:
        """cluster.yaml for :meth:`start`; no host makes others join."""
        self.write()
        file = self.folder / "cluster.yaml"
        file.write_text(file.read_text().replace(_AUTOSCALING, ""))

    def start(self, options: str = "") -> None:
        """Start everything by the commands of cluster.yaml, without ``ray up``; ``options`` of ``muster up``."""
        for command in self._commands()["head_start_ray_commands"][:-1]:
            self.head.done(f"{self._exports}{command}")
        for worker in self.workers:
            self.start_ray_on(worker)
        self.muster_up(options)

    def muster_up(self, options: str = "") -> None:
        """Start Muster with the command of cluster.yaml, and these further options."""
        up = self._commands()["head_start_ray_commands"][-1]
        self.head.done(f"{self._exports}export MUSTER_UP_OPTIONS='{options}'; {up}", SERVE_S)

    def start_ray_on(self, worker: Host) -> None:
        for command in self._commands()["worker_start_ray_commands"]:
            worker.done(f"{self._exports}export RAY_HEAD_IP={self.head.address}; {command}")

    @property
    def _exports(self) -> str:
        return "".join(f"export {name}={value}; " for name, value in self.environment.items())

    def _commands(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = yaml.safe_load((self.folder / "cluster.yaml").read_text())
        return found

    def start_ray_on_head(self) -> None:
        """Start Ray with the command of cluster.yaml, without ``muster up``, as a service of the head would at boot."""
        commands = self._commands()["head_start_ray_commands"]
        (start,) = (command for command in commands if "ray start --head" in command)
        self.head.done(f"{self._exports}{start}")

    def ready(self) -> dict[str, Any]:
        """Return the content of the ready file on the head."""
        found: dict[str, Any] = json.loads((self.head.home / "muster-ready.json").read_text())
        return found

    def status(self) -> dict[str, Any]:
        """Output of ``muster status --json`` on the head; without nodes and actors while it cannot be known."""
        finished = self.head.run("muster status --json --storage /srv/muster")
        if finished.returncode != 0:
            return {"nodes": [], "actors": [], "error": finished.stderr}
        found: dict[str, Any] = json.loads(finished.stdout)
        return found

    def gateways(self) -> dict[str, int]:
        """Return the pid of the gateway on each host, by address."""
        status = self.status()
        pids = {actor["name"]: actor["pid"] for actor in status["actors"]}
        return {place: pids[name] for name, place in placed(status).items() if name.startswith("gateway-")}

    def muster(self, command: str, timeout_s: float = 120.0) -> str:
        """Output of a command of muster on the head."""
        return self.head.done(f"muster {command} --storage /srv/muster", timeout_s)

    def until_serving(self, hosts: Sequence[Host]) -> dict[str, str]:
        """Wait until every actor serves and each of these hosts, and no other, has a gateway; host names by actor."""
        addresses = {host.address: host.name for host in hosts}
        deadline = time.monotonic() + SERVE_S
        while (known := _gateways(hosts)) != set(addresses) or _lacking(status := self.status(), set(addresses)):
            if time.monotonic() > deadline:
                status = self.status()
                raise AssertionError(
                    f"not within {SERVE_S:.0f} s: Metadata of {hosts[0].address} names {sorted(known)}; "
                    f"{_lacking(status, set(addresses))}\n{self.autoscaler()}\n{status}"
                )
            time.sleep(_POLL_S)
        return {name: addresses[place] for name, place in placed(status).items() if place in addresses}

    def autoscaler(self) -> str:
        """Return the autoscaler's latest actions on hosts, and failures."""
        lines = "New status|failed|rsync|Exception"
        return self.head.run(f"grep -aE '{lines}' /tmp/ray/session_latest/logs/monitor.out | tail -n 60").stdout

    def versions(self) -> set[str]:
        """Return the versions of Muster on all hosts."""
        command = "python -c 'from importlib.metadata import version; print(version(\"muster-kafka\"))'"
        return {host.done(command).strip() for host in self.hosts}

    def busiest(self, places: dict[str, str], used: Sequence[str]) -> Host:
        """Return the worker with the most of the actors that are in use."""
        counts = {host.name: sum(places.get(name) == host.name for name in used) for host in self.workers}
        return max(self.workers, key=lambda host: counts[host.name])

    def log_ends(self) -> str:
        """Return the ends of the logs of a failed start."""
        texts = []
        with suppress(OSError):
            texts.append((self.head.home / "muster.log").read_text(errors="replace")[-3000:])
        return "\n".join(texts)


def _gateways(hosts: Sequence[Host]) -> set[str]:
    """Addresses of the gateways that the first of these hosts names; empty if it has none.

    `muster status` takes seconds of a processor, which the hosts need to start.
    """
    try:
        with Client(PORT, host=hosts[0].address) as client:
            found = client.exchange(_METADATA, 4, {"topics": [], "allow_auto_topic_creation": False})
    except OSError:
        return set()
    return {broker.host for broker in found.brokers}


def _lacking(status: dict[str, Any], addresses: set[str]) -> str:
    """Which actors are not alive, and where gateways are if not one at each address; empty if all is well.

    A server of ZooKeeper may wait for another host than these.
    """
    places = placed(status)
    gateways = {name: place for name, place in places.items() if name.startswith("gateway-")}
    actors = [actor for actor in status["actors"] if not actor["name"].startswith("zookeeper-")]
    lacking = [f"{actor['name']} is {actor['state']}" for actor in actors if actor["state"] != "alive"]
    servers = ((server["address"], server["mode"]) for server in status.get("zookeeper", []))
    lacking += [f"ZooKeeper at {at} is away" for at, mode in servers if not mode and at.rpartition(":")[0] in addresses]
    if sorted(gateways.values()) != sorted(addresses):
        lacking.append(f"gateways are at {gateways}")
    return ", ".join(lacking)


def placed(status: dict[str, Any]) -> dict[str, str]:
    """Return the address of each actor's node."""
    nodes = {node["node_id"]: node["address"] for node in status["nodes"] if node["state"] != "dead"}
    return {actor["name"]: nodes.get(actor["node_id"], "") for actor in status["actors"]}


def with_gcs(text: str, redis: str | None) -> str:
    """Return cluster.yaml with the state of Ray's GCS in that Redis, HOST:PORT; None: in memory."""
    store = "RAY_gcs_storage=rocksdb RAY_gcs_storage_path=~/muster-gcs"
    assert text.count(store) == 1
    return text.replace(store, "" if redis is None else f"RAY_REDIS_ADDRESS={redis}")


def with_zookeeper(text: str, zookeeper: str) -> str:
    """Return cluster.yaml with a ZooKeeper elsewhere, HOST:PORT, on the data of Muster's own."""
    protected = f"--set zookeeper.set.acl=true --set zookeeper.credentials.file={SHARED}/zookeeper/credentials"
    found, count = re.subn(r"(muster up --address auto )", rf"\g<1>--zookeeper {zookeeper} {protected} ", text)
    assert count == 1
    return found


def with_bucket(text: str, uri: str) -> str:
    """Return cluster.yaml with a Muster on a bucket; the shared directory is each host's own then."""
    found, count = re.subn(
        r"(muster up .*)--storage /srv/muster", rf"\g<1>--storage {uri} --set storage.object.cache.path={SHARED}", text
    )
    assert count == 1
    return found


def edited(text: str, head: str, workers: Sequence[str], key: Path, build: int = 1) -> str:
    """cluster.yaml for these hosts. Only values that its comments mark with EDIT are replaced."""
    values = {
        r"(?m)^(  head_ip: )\S+": head,
        r"(?m)^(  worker_ips: )\[.*?\]": f"[{', '.join(workers)}]",
        r"(?m)^(  ssh_user: )\S+": "root",
        r"(?m)^(  ssh_private_key: )\S+": str(key),
        r"(?m)^(min_workers: )\d+": str(len(workers)),
        r"(?m)^(max_workers: )\d+": str(len(workers)),
        r"(--nodes )\d+": str(len(workers) + 1),
        r"(- true build )\d+": str(build),
    }
    for pattern, value in values.items():
        text, count = re.subn(pattern, rf"\g<1>{value}", text)
        assert count == 1, f"cluster.yaml: {count} times {pattern}"
    return text
