"""Target of the attacks: a gateway with the real actors in one process, without Ray; and what a log must not have.

``python -m tests.fuzz.target DIRECTORY [--authorizer] [--tls]`` serves until its input ends, and prints a line of JSON:
its ports. With the authorizer, the plain listener's clients are super users, and USER has a few rights; with TLS, the
listener that wants SASL is SASL_SSL, and its authority's certificate is in AUTHORITY_FILE.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from muster.actors.config import MusterConfig
from muster.actors.runtime.event_writer import EventWriter
from muster.actors.runtime.memory import settle
from muster.actors.runtime.process import now_ms, wall_ms
from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.actors.tables.schemas.administration import ADMINISTRATION
from muster.actors.wire.kafka.steps import finish
from muster.gateway.administration.trail import Trail
from muster.gateway.apis.schemas import load_schemas
from muster.gateway.listener.limiting.turns import in_background
from muster.gateway.listener.upkeep import Upkeep
from muster.gateway.security.credentials import write
from muster.gateway.security.scram import SCRAM_MECHANISMS, ScramCredential
from muster.placement.client import ANONYMOUS
from muster.placement.security.acls import (
    Acl,
    AclOperation,
    AclPattern,
    AclPatternType,
    AclPermission,
    AclResourceType,
)
from muster.placement.zookeeper.client import ZooKeeperClient, connect
from tests.certificates import Authority
from tests.fuzz.values import TOPICS
from tests.gateway.serving import Client, Serving, serving
from tests.zookeeper_fixture import eventually

USER, PASSWORD = "fuzz", "a password"
AUTHORITY_FILE = "ca.pem"
CANARY_TOPIC = "canary"
CREATE_TOPICS, METADATA, FIND = 19, 3, 10
GROUP, TRANSACTION = 0, 1
_NAMES = 400
"""Number of names of groups: each of 50 partitions has some."""
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
        is_warned = text.startswith(("lost ", "internal connection ")) or record.name == "py.warnings"
        if record.levelno >= logging.ERROR or record.exc_info or is_warned:
            self.found.append(logging.Formatter("%(levelname)s %(name)s: %(message)s").format(record))


_DELAY = "connection.invalid.request.delay.ms"
_AUTHORIZER = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": ANONYMOUS}
_RIGHTS = (
    (AclResourceType.TOPIC, "fuzz-a", AclPatternType.LITERAL, AclOperation.ALL, AclPermission.ALLOW),
    (AclResourceType.TOPIC, "fuzz-", AclPatternType.PREFIXED, AclOperation.READ, AclPermission.ALLOW),
    (AclResourceType.TOPIC, "fuzz-recompressed", AclPatternType.LITERAL, AclOperation.ALL, AclPermission.DENY),
    (AclResourceType.GROUP, "g1", AclPatternType.LITERAL, AclOperation.READ, AclPermission.ALLOW),
    (AclResourceType.TRANSACTIONAL_ID, "tx1", AclPatternType.LITERAL, AclOperation.WRITE, AclPermission.ALLOW),
)


def _with_tls(directory: Path) -> dict[str, str]:
    authority = Authority()
    authority.write(directory / AUTHORITY_FILE)
    key = authority.issue("CN=gateway").write(directory / "gateway.pem")
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(key)}


@contextmanager
def attacked(
    zk: ZooKeeperClient, directory: Path, *, authorizer: bool = False, tls: bool = False, held: bool = False
) -> Iterator[tuple[Serving, int]]:
    """Yield the gateway, with its audit trail, and the port of its listener that wants SASL; USER may come in there.

    ``held``: connections are held after what is no request, as by default.
    """
    users = directory / "users.properties"
    directory.mkdir(parents=True, exist_ok=True)
    write(users, {USER: {each: ScramCredential.of_password(each, PASSWORD) for each in SCRAM_MECHANISMS}})
    properties = {
        "listeners": "PLAIN://127.0.0.1:0,SECURED://127.0.0.1:0",
        "listener.security.protocol.map": f"PLAIN:PLAINTEXT,SECURED:{'SASL_SSL' if tls else 'SASL_PLAINTEXT'}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.credentials.file": str(users),
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "2",
        "metrics.max.group.series": "200",
        **({_DELAY: str(MusterConfig.from_properties({}).connection_invalid_request_delay_ms)} if held else {}),
        **(_AUTHORIZER if authorizer else {}),
        **(_with_tls(directory) if tls else {}),
    }
    with serving(zk, directory / "storage", properties, with_actors=True) as running:
        if authorizer:
            _allow(running)
        trail = EventWriter(directory / "storage", ADMINISTRATION, "gateway-1", flush_ms=1_000, now_ms=wall_ms)
        upkeep = running.run(_start(running, trail))
        yield running, running.listen("SECURED")
        running.run(_stop(trail, upkeep))


async def _start(running: Serving, trail: EventWriter) -> asyncio.Task[None]:
    trail.start()
    running.gateway.trail = Trail(trail.add, wall_ms, 1)
    return asyncio.get_running_loop().create_task(_upkeep(running))


async def _upkeep(running: Serving) -> None:
    """Run the work that a gateway does once a second."""
    gateway, upkeep = running.gateway, Upkeep(running.gateway.account)
    assert gateway.trail is not None
    while True:
        await asyncio.sleep(1)
        try:
            await in_background(upkeep.settle(now_ms()))
            gateway.forget_silent_clients()
            gateway.trail.settle()
        except Exception:
            logging.getLogger(__name__).exception("the upkeep failed")


async def _stop(trail: EventWriter, upkeep: asyncio.Task[None]) -> None:
    upkeep.cancel()
    await trail.close()


def _allow(running: Serving) -> None:
    rights = [
        Acl(AclPattern(resource, name, pattern), f"User:{USER}", "*", operation, permission)
        for resource, name, pattern, operation, permission in _RIGHTS
    ]
    running.run(running.controller.create_acls(rights))


def prepare(client: Client) -> list[UUID]:
    """Create the topics of an attack and of the canary, if they do not exist. Returns the ids of the former.

    All coordinators are started: a cluster starts one for the first group of its partition.
    """
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
    names = [f"group-{number}" for number in range(_NAMES)]
    for key_type in (GROUP, TRANSACTION):
        body = {"key_type": key_type, "coordinator_keys": names}
        eventually(
            lambda body=body: not any(each.error_code for each in client.exchange(FIND, 4, body).coordinators),
            "all coordinators have started",
            within_s=300,
        )
    return [topic.topic_id for topic in found.topics]


def main() -> None:
    faulthandler.register(signal.SIGUSR1)
    directory, options = Path(sys.argv[1]), sys.argv[2:]
    problems = Problems()
    logging.basicConfig(
        level=logging.WARNING, filename=directory / "log", format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.captureWarnings(True)
    logging.getLogger().addHandler(problems)
    with EmbeddedZooKeeper.start(directory / "zookeeper", timeout_s=60) as zookeeper:
        zk = connect(zookeeper.hosts, timeout_s=10)
        given = {name: f"--{name}" in options for name in ("authorizer", "tls", "held")}
        with attacked(zk, directory, **given) as (running, secured):
            finish(load_schemas())
            settle()  # as actors do
            print(json.dumps({"plain": running.port, "secured": secured}), flush=True)
            for _ in sys.stdin:  # each line requests what was found since the last one
                found, problems.found = problems.found, []
                print(json.dumps(found), flush=True)
        zk.shut()


if __name__ == "__main__":
    main()
