"""Commands import little before they do anything: what takes long is imported by those that need it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from muster.gateway.cli.main import _COMMANDS
from tests.tables.events import NOON_MS
from tests.tables.making import put

SLOW = (
    "aiohttp",
    "confluent_kafka",
    "cryptography",
    "muster.actors.config",
    "muster.actors.log",
    "numpy",
    "pyarrow",
    "pydantic",
    "pyspark",
    "ray",
    "rich",
)
"""Each takes 20 ms of processor time or more."""
NEEDED = {
    "up": {"rich"},
    "down": {"rich"},
    "status": {"rich"},
    "doctor": {"rich"},
    "drain": {"rich"},
    "groups": {"rich"},
    "events": {"rich"},
    "topics": {"rich"},
    "user": {"rich"},
    "acls": {"rich"},
    "quotas": {"rich"},
    "mapping": {"rich"},
    "audit-log": {"rich"},
    "storage": {"rich"},
    "tables": {"rich"},
    "attribution-audit": {"rich"},
    "fault": {"pydantic", "rich"},
}
"""By command; the others need none of them."""
_SCRIPT = """
import json, os, sys
from muster.gateway.cli import main

def imported(arguments, environment):
    receive, send = os.pipe()
    if not os.fork():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        os.environ.update(environment)
        sys.argv = ["muster", *arguments]
        try:
            main.main()
        except SystemExit as end:
            os.write(send, json.dumps([end.code, [name for name in SLOW if name in sys.modules]]).encode())
        finally:
            os._exit(0)
    os.close(send)
    with open(receive) as found:
        return json.load(found)

SLOW = json.loads(sys.argv[1])
print(json.dumps([imported(*each) for each in json.loads(sys.argv[2])]))
"""


def slow_imports(*runs: tuple[list[str], dict[str, str]]) -> list[tuple[int, set[str]]]:
    """Return, for each, the exit code of ``muster`` with these arguments and variables, and its imports out of SLOW."""
    script = [sys.executable, "-c", _SCRIPT, json.dumps(SLOW), json.dumps(runs)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=True)
    return [(code, set(found)) for code, found in json.loads(done.stdout)]


def test_help_imports_only_what_the_command_needs() -> None:
    names = list(_COMMANDS)
    found = dict(zip(names, slow_imports(*(([name, "--help"], {}) for name in names)), strict=True))
    assert found == {name: (0, NEEDED.get(name, set())) for name in names}


@pytest.mark.parametrize(
    ("run", "code"),
    [
        (([], {}), 2),
        ((["--help"], {}), 0),
        ((["--version"], {}), 0),
        (([], {"_MUSTER_COMPLETE": "bash_complete", "COMP_WORDS": "muster st", "COMP_CWORD": "1"}), 0),
        (([], {"_MUSTER_COMPLETE": "bash_complete", "COMP_WORDS": "muster log v", "COMP_CWORD": "2"}), 0),
        ((["log", "--help"], {}), 0),
    ],
    ids=str,
)
def test_what_no_command_does_imports_none_of_them(run: tuple[list[str], dict[str, str]], code: int) -> None:
    assert slow_imports(run) == [(code, set())]


def test_an_error_imports_no_more() -> None:
    found = slow_imports(
        (["stauts"], {}), (["status", "--storage", "nowhere"], {}), (["groups", "list", "--storage", "nowhere"], {})
    )
    assert found == [(2, {"rich"}), (1, {"rich"}), (1, {"rich"})]


def test_tables_are_read_without_numpy(tmp_path: Path) -> None:
    put(tmp_path, "gateway-0-0", [1], ts_ms=NOON_MS)
    assert slow_imports((["tables", "list", "--storage", str(tmp_path)], {})) == [(0, {"pyarrow", "rich"})]
