"""What is attacked: a gateway with the real actors in one process, without Ray; and what a log must not have.

``python -m tests.fuzz.target DIRECTORY`` serves until its input ends, and prints a line of JSON: its ports.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.gateway.security.credentials import write
from muster.gateway.security.scram import SCRAM_MECHANISMS, ScramCredential
from muster.placement.zookeeper.client import ZooKeeperClient, connect
from tests.fuzz.values import TOPICS
from tests.gateway.serving import Client, Serving, serving

USER, PASSWORD = "fuzz", "a password"
CANARY_TOPIC = "canary"
CREATE_TOPICS, METADATA = 19, 3
_CONFIGS: dict[str, dict[str, str]] = {
    "fuzz-compacted": {"cleanup.policy": "compact"},
    "fuzz-recompressed": {"compression.type": "zstd"},
}


class Problems(logging.Handler):
    """Collects what bad input must not cause: errors, tracebacks, and channels to actors that are lost."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.ERROR or record.exc_info or text.startswith(("lost ", "internal connection ")):
            self.found.append(logging.Formatter("%(levelname)s %(name)s: %(message)s").format(record))


@contextmanager
def attacked(zk: ZooKeeperClient, directory: Path) -> Iterator[tuple[Serving, int]]:
    """The gateway, and the port of its listener that wants SASL; the client USER may come in there."""
    users = directory / "users.properties"
    directory.mkdir(parents=True, exist_ok=True)
    write(users, {USER: {each: ScramCredential.of_password(each, PASSWORD) for each in SCRAM_MECHANISMS}})
    properties = {
        "listeners": "PLAIN://127.0.0.1:0,SECURED://127.0.0.1:0",
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,SECURED:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.credentials.file": str(users),
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "2",
        "metrics.max.group.series": "200",
    }
    with serving(zk, directory / "storage", properties, with_actors=True) as running:
        yield running, running.listen("SECURED")


def prepare(client: Client) -> list[UUID]:
    """Create the topics of an attack and of the canary, if they do not exist. Returns the ids of the former."""
    wanted = [
        {
            "name": name,
            "num_partitions": 3,
            "replication_factor": 1,
            "assignments": [],
            "configs": [{"name": key, "value": value} for key, value in _CONFIGS.get(name, {}).items()],
        }
        for name in (*TOPICS, CANARY_TOPIC)
    ]
    client.exchange(CREATE_TOPICS, 5, {"topics": wanted, "timeout": 30_000, "validate_only": False})
    flags = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    found = client.exchange(METADATA, 12, {"topics": [{"topic_id": None, "name": name} for name in TOPICS], **flags})
    return [topic.topic_id for topic in found.topics]


def main() -> None:
    faulthandler.register(signal.SIGUSR1)
    directory = Path(sys.argv[1])
    problems = Problems()
    logging.basicConfig(
        level=logging.WARNING, filename=directory / "log", format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger().addHandler(problems)
    with EmbeddedZooKeeper.start(directory / "zookeeper", timeout_s=60) as zookeeper:
        zk = connect(zookeeper.hosts, timeout_s=10)
        with attacked(zk, directory) as (running, secured):
            print(json.dumps({"plain": running.port, "secured": secured}), flush=True)
            for _ in sys.stdin:  # each line requests what was found since the last one
                found, problems.found = problems.found, []
                print(json.dumps(found), flush=True)
        zk.shut()


if __name__ == "__main__":
    main()
