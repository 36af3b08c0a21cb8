"""Kafka Connect: two workers, one of which is killed, with a source that reads a file and a sink that writes one.

What the workers know is in three compacted topics: the connectors, the source's position, and who runs what.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.artifacts import Kafka, connect
from tests.conformance.kafka import free_ports
from tests.conformance.programs.program import Outcome, Program
from tests.conformance.programs.records import read
from tests.conformance.topics import committed, create_topic, ends, own_configs
from tests.muster_process import eventually

pytestmark = pytest.mark.timeout(600)

HEAP_MB = 256
START_S = 180
REST_S = 30
FIRST = [f"line {number}" for number in range(300)]
SECOND = [f"line {number}" for number in range(300, 500)]
STORES = ("config", "offset", "status")


class Worker(Program):
    """A distributed worker of a group, with its REST interface."""

    def __init__(self, release: Kafka, bootstrap: str, group: str, name: str, folder: Path) -> None:
        (port,) = free_ports(1)
        self.address = f"127.0.0.1:{port}"
        properties = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "listeners": f"http://{self.address}",
            **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in STORES},
            **{f"{kind}.storage.replication.factor": "1" for kind in STORES},
            **{f"{kind}.storage.partitions": "2" for kind in ("offset", "status")},
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.flush.interval.ms": "500",
            "session.timeout.ms": "20000",
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "1000",
            "plugin.discovery": "service_load",
        }
        file = folder / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        main_class = "org.apache.kafka.connect.cli.ConnectDistributed"
        super().__init__(name, release.command(main_class, str(file), heap_mb=HEAP_MB), folder)

    def rest(self, path: str, body: object = None, method: str = "GET") -> Any:
        """Return the response of its REST interface."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.address}{path}", data=data, method=method)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=REST_S) as response:
            return json.load(response)

    def placed(self, *connectors: str) -> dict[str, str]:
        """Return the worker of each connector and of its task, once all of them run."""
        found: dict[str, str] = {}
        for name in connectors:
            status = self.rest(f"/connectors/{name}/status")
            parts = {name: status["connector"], **{f"{name}-{task['id']}": task for task in status["tasks"]}}
            assert len(parts) == 2, status
            assert {part["state"] for part in parts.values()} == {"RUNNING"}, status
            found |= {part: described["worker_id"] for part, described in parts.items()}
        return found


def append(file: Path, lines: list[str]) -> None:
    with file.open("a") as written:
        written.writelines(f"{line}\n" for line in lines)


def test_a_worker_is_killed(bootstrap: str, fresh: Callable[[str], str], tmp_path: Path, outcome: Outcome) -> None:
    release, group, topic = connect(), fresh("connect"), fresh("lines")
    create_topic(bootstrap, topic, 1)
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    append(source, FIRST)
    classes = "org.apache.kafka.connect.file.FileStream"
    connectors = {
        "source": {"connector.class": f"{classes}SourceConnector", "file": str(source), "topic": topic},
        "sink": {"connector.class": f"{classes}SinkConnector", "file": str(sink), "topics": topic},
    }

    def await_all(lines: list[str]) -> None:
        """Written by the sink, and no need to write them again: positions of source and sink are kept."""
        eventually(
            lambda: sink.read_text().splitlines(),
            lambda found: found == lines,
            f"{len(lines)} lines are there",
            START_S,
        )
        offsets = lambda: committed(bootstrap, "connect-sink")  # noqa: E731
        eventually(offsets, lambda found: found == ends(bootstrap, topic, 1), "the sink's offset is committed", START_S)
        positions = lambda: [json.loads(record.value or b"null") for record in read(bootstrap, f"{group}-offset")]  # noqa: E731
        kept = {"position": source.stat().st_size}
        eventually(positions, lambda found: kept in found, "the source's position is kept", START_S)

    with ExitStack() as running:
        workers = [Worker(release, bootstrap, group, name, tmp_path) for name in ("one", "other")]
        for worker in workers:
            running.enter_context(worker)
        for worker in workers:
            eventually(partial(worker.rest, "/connectors"), lambda found: found == [], "its REST serves", START_S)
        for name, config in connectors.items():
            workers[0].rest(f"/connectors/{name}/config", {**config, "tasks.max": "1"}, "PUT")
        both = {worker.address for worker in workers}
        where = eventually(
            lambda: workers[0].placed(*connectors), lambda found: set(found.values()) == both, "both run some", START_S
        )
        await_all(FIRST)

        victim, survivor = sorted(workers, key=lambda worker: worker.address != where["source-0"])
        victim.kill()
        append(source, SECOND)
        eventually(
            lambda: survivor.placed(*connectors),
            lambda found: set(found.values()) == {survivor.address},
            "the other runs all",
            START_S,
        )
        await_all(FIRST + SECOND)
        assert survivor.stop() == 143, "it ended in order, by SIGTERM"
    policies = {own_configs(bootstrap, f"{group}-{store}")["cleanup.policy"] for store in STORES}
    assert policies == {"compact"}
    outcome(
        f"Kafka Connect {release.version}, file source and sink on two workers: one killed",
        f"{len(FIRST + SECOND)} lines, each once and in order",
    )
