"""franz-go's own tests of consumer groups, which move records through groups that members join and leave.

Each of its balancers, with dynamic and with static members, in classic groups and in those of KIP-848; also in
transactions.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from pytest_muster.bound import bound
from tests.conformance.artifacts import franz_go

TESTS = (
    "TestGroupETL",
    "TestGroupSimple",
    "TestIssue523",
    "TestConsumeRegex",
    "TestAddRemovePartitions",
    "TestTxnEtl",
)
RECORDS = 20_000
_TIMEOUT_S = 600
_RESULT = re.compile(r"^\s*--- (\w+): (\S+)", re.MULTILINE)


@pytest.fixture(scope="session")
def program() -> Path:
    return franz_go()


@pytest.mark.timeout(900)
def test_its_own_tests_of_groups(bootstrap: str, program: Path, tmp_path: Path) -> None:
    command = [str(program), "-test.v", f"-test.timeout={_TIMEOUT_S}s", f"-test.run=^({'|'.join(TESTS)})$"]
    environment = {**os.environ, "KGO_SEEDS": bootstrap, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": str(RECORDS)}
    done = subprocess.run(
        bound(command), env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=_TIMEOUT_S + 30
    )
    results = {name: result for result, name in _RESULT.findall(done.stdout)}
    assert set(results.values()) == {"PASS"}, {name: result for name, result in results.items() if result != "PASS"}
    assert {"TestGroupETL/range/848", "TestGroupETL/sticky/848/static", "TestGroupSimple/848"} <= results.keys()
    assert results.keys() >= {*TESTS}, done.stdout[-4_000:]
