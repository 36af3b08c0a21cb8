"""Apicurio Registry with its schemas in Kafka: a journal, which it reads from the start whenever it starts."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.artifacts import apicurio
from tests.conformance.kafka import free_ports
from tests.conformance.programs.program import Outcome, Program
from tests.muster_process import eventually

pytestmark = pytest.mark.timeout(600)

HEAP_MB = 384
START_S = 120
REST_S = 30
SUBJECTS = 5
VERSIONS = 3


class Registry(Program):
    """A registry, with the REST interface that clients of Confluent's registry use."""

    def __init__(self, bootstrap: str, journal: str, folder: Path) -> None:
        (port,) = free_ports(1)
        self.release = apicurio()
        self._address = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        properties = {
            "apicurio.storage.kind": "kafkasql",
            "apicurio.kafkasql.bootstrap.servers": bootstrap,
            "apicurio.kafkasql.topic": journal,
            "apicurio.kafkasql.snapshots.topic": f"{journal}-snapshots",
            "apicurio.events.kafka.topic": f"{journal}-events",
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(port),
        }
        super().__init__("registry", self.release.command(properties, heap_mb=HEAP_MB), folder)

    def rest(self, path: str, body: object = None) -> Any:
        """Return the response to a GET, or to a POST if there is a body."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._address}{path}", data=data)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=REST_S) as response:
            return json.load(response)

    def await_ready(self) -> None:
        eventually(lambda: self.rest("/subjects"), lambda found: isinstance(found, list), "it serves", START_S)

    def everything(self) -> dict[str, list[Any]]:
        """All versions of each subject, with their ids and schemas."""
        return {
            subject: [
                self.rest(f"/subjects/{subject}/versions/{number}")
                for number in self.rest(f"/subjects/{subject}/versions")
            ]
            for subject in sorted(self.rest("/subjects"))
        }


def schema(fields: int) -> dict[str, str]:
    """Return an Avro schema with that number of fields, all with defaults, so that it can read its earlier versions."""
    listed = [{"name": f"field{number}", "type": "string", "default": ""} for number in range(fields)]
    return {"schema": json.dumps({"type": "record", "name": "R", "fields": listed})}


def test_schemas_survive_a_kill(bootstrap: str, fresh: Callable[[str], str], tmp_path: Path, outcome: Outcome) -> None:
    journal = fresh("journal")
    with Registry(bootstrap, journal, tmp_path) as registry:
        registry.await_ready()
        for subject in range(SUBJECTS):
            for fields in range(1, VERSIONS + 1):
                registry.rest(f"/subjects/subject-{subject}/versions", schema(fields))
        registered = registry.everything()
        assert {subject: len(versions) for subject, versions in registered.items()} == {
            f"subject-{subject}": VERSIONS for subject in range(SUBJECTS)
        }
        registry.kill()
        registry.start()
        eventually(registry.everything, registered.__eq__, "it has read its journal", START_S)
        ids = {version["id"] for versions in registered.values() for version in versions}
    outcome(
        f"Apicurio Registry {registry.release.version}, schemas in a topic: killed, started again",
        f"{SUBJECTS * VERSIONS} versions of {SUBJECTS} subjects, {len(ids)} ids, all read again",
    )
