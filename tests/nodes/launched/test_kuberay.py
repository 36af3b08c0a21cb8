"""The containers of deploy/kuberay.yaml: their commands, with what KubeRay puts into their environment, on one host."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.muster_process import START_S, eventually
from tests.nodes.launched.lone_host import ADDRESS, ROOT, LoneHost

pytestmark = pytest.mark.ring(name="launched")

USERS, CONFIG = "/srv/users", "/srv/config"
"""In place of /etc/muster-users and /etc/muster, which would be those of the machine."""
GCS = "/srv/muster-gcs/store"
NAME = "headgroup.kafka.example.com"
"""It has to be found: librdkafka connects to what the metadata name."""
BROKERS = """
import json, sys
from confluent_kafka.admin import AdminClient
found = AdminClient(json.loads(sys.argv[1])).list_topics(timeout=30).brokers.values()
print(json.dumps([f"{broker.host}:{broker.port}" for broker in found]))
"""
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "ann",
    "sasl.password": "of ann",
}


def _documents() -> list[dict[str, Any]]:
    text = (ROOT / "deploy/kuberay.yaml").read_text()
    return list(yaml.safe_load_all(text.replace("/etc/muster-users", USERS).replace("/etc/muster", CONFIG)))


class Pods(LoneHost):
    """Containers on one host: they share its network, processes and directories."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (cluster,) = (each for each in _documents() if each["kind"] == "RayCluster")
        self.head = cluster["spec"]["headGroupSpec"]
        self.worker = cluster["spec"]["workerGroupSpecs"][0]

    def mount(self) -> None:
        """Mount the containers' files; set the name at which clients reach the head's gateway."""
        (self.srv / "hosts").write_text(f"127.0.0.1 localhost\n{ADDRESS} {NAME}\n")
        self.done("mount --bind /srv/hosts /etc/hosts")
        (config,) = (each for each in _documents() if each["kind"] == "ConfigMap")
        (self.srv / "config").mkdir()
        for name, text in config["data"].items():
            (self.srv / "config" / name).write_text(text)
        self.done(f"mkdir {USERS}; muster user add ann --file {USERS}/users.properties --password 'of ann'")

    def start(self, group: dict[str, Any], name: str, ray_start: str, address: str, log: str) -> None:
        """Run a group's container in the background as KubeRay would, and again as Kubernetes does when it has failed.

        ``log`` is in the home, and its process in ``log``.pid.
        """
        (container,) = group["template"]["spec"]["containers"]
        # KubeRay's is 8080 for all; here the agents of both containers would fight for it.
        port = "8080" if group is self.head else "8081"
        parameters = {**group["rayStartParams"], "metrics-export-port": port, "num-cpus": "2"}
        flags = " ".join(f"--{option}={value}" for option, value in sorted(parameters.items()))
        environment = {
            **{each["name"]: each.get("value", "") for each in container["env"]},
            "KUBERAY_GEN_RAY_START_CMD": f"{ray_start} --block {flags}",
            "RAY_ADDRESS": address,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": "0123456789abcdef" * 4,
            "RAY_NODE_TYPE_NAME": name,
        }
        (script,) = container["args"]
        settings = " ".join(f"{key}={shlex.quote(value)}" for key, value in environment.items())
        command = shlex.join([*container["command"], script.replace("--nodes 3", "--nodes 1")])
        once = f"echo $$ > ~/{log}.pid; {settings} exec {command}"
        again = f"until (exec bash -c {shlex.quote(once)}); do sleep 1; done"
        self.done(f"({again}) > ~/{log} 2>&1 < /dev/null &")

    def start_head(self) -> Path:
        """Start the head's container; its log."""
        self.start(self.head, "headgroup", "ray start --head", "127.0.0.1:6379", "head.log")
        return self.home / "head.log"

    def kill_head(self) -> None:
        """Kill what runs in the head's container; Kubernetes starts it again."""
        self.done("pkill -9 -x 'gcs_server|raylet'; kill -9 $(cat ~/head.log.pid)")

    def brokers(self, port: int, **settings: str) -> list[str]:
        """Return the brokers in Metadata for a client of that port."""
        client = json.dumps({"bootstrap.servers": f"{ADDRESS}:{port}", **settings})
        *_, line = self.done(shlex.join(["python", "-c", BROKERS, client])).splitlines()  # after librdkafka's log
        found: list[str] = json.loads(line)
        return found


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    with Pods(tmp_path) as host:
        yield host


@pytest.mark.timeout(900)
def test_containers_run(pods: Pods) -> None:
    """Though Ray does not start at first: the container ends, and Kubernetes starts it again."""
    pods.mount()
    pods.kill_next_raylet()
    log = pods.start_head()
    eventually(log.read_text, lambda said: "muster ready " in said, "Muster serves in the head's pod", START_S)
    assert "timed out during startup" in log.read_text()
    assert log.read_text().count("connecting to Ray") == 1, "once Ray has started"
    assert pods.brokers(9094, **LOGIN) == [f"{NAME}:9094"]
    assert pods.brokers(9092) == [f"{ADDRESS}:9092"]

    session = pods.done(f"cat {GCS}/session_name")
    assert pods.done(f"stat -c %a {GCS}").strip() == "700"
    pods.kill_head()
    eventually(log.read_text, lambda said: said.count("muster ready ") == 2, "Muster serves in it again", START_S)
    assert pods.done(f"cat {GCS}/session_name") == session, "the same Ray"
    assert "taking over from a muster up that was killed" in log.read_text(), "whose actors it has found in its store"
    assert pods.brokers(9092) == [f"{ADDRESS}:9092"]

    pods.start(pods.worker, "gateway-a", f"ray start --address={ADDRESS}:6379", f"{ADDRESS}:6379", "worker.log")
    nodes = "RAY_AUTH_MODE=token muster status --storage /srv/muster --json"
    eventually(
        lambda: json.loads(pods.done(nodes))["nodes"], lambda found: len(found) == 2, "the worker's pod joins", START_S
    )

    pid = int((pods.home / "head.log.pid").read_text())
    pods.done(f"kill -TERM {pid}")
    eventually(pods.processes, lambda left: pid not in left, "SIGTERM ends the head's container")
    assert "muster: " not in log.read_text(), "stopped in order"
