"""``muster tables``: output and exit codes for folders that are empty, sound, compacted and damaged."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from muster.actors.tables.reading import read
from muster.actors.tables.schemas import TABLES
from muster.actors.tables.schemas.cluster import LIFECYCLE
from muster.gateway.cli.storage.tables import tables
from tests.cli.runner import runner
from tests.tables.events import HOUR_MS, NOON_MS
from tests.tables.making import of_version, put


def run(storage: Path, *arguments: str) -> Result:
    return runner().invoke(tables, [*arguments, "--storage", str(storage)])


def lifecycle(storage: Path) -> dict[str, Any]:
    listed = json.loads(run(storage, "list", "--json").stdout)
    assert [each["table"] for each in listed] == [*TABLES]
    (found,) = (each for each in listed if each["table"] == LIFECYCLE)
    return dict(found)


def test_without_tables(tmp_path: Path) -> None:
    assert lifecycle(tmp_path) == {
        "table": LIFECYCLE,
        "rows": 0,
        "files": 0,
        "bytes": 0,
        "oldest_ms": None,
        "newest_ms": None,
        "unreadable": 0,
    }
    assert run(tmp_path, "verify").stdout == f"{len(TABLES)} tables sound\n"
    assert run(tmp_path, "compact").stdout == "0 files merged into 0, 0 files removed, 0 hours expired\n"
    missing = run(tmp_path / "elsewhere", "list")
    assert missing.exit_code == 1
    assert "there is no storage directory" in missing.stderr


def test_a_compaction_does_not_change_what_is_listed(tmp_path: Path) -> None:
    """Files of two gateways with different clocks; one hour in between is missing."""
    for number, ts_ms in enumerate((NOON_MS, NOON_MS + 250, NOON_MS + 2 * HOUR_MS, NOON_MS + 2 * HOUR_MS - 1)):
        put(tmp_path, f"gateway-{number % 2}-{number}", [number, 10 + number], ts_ms=ts_ms)
    before = lifecycle(tmp_path)
    assert (before["rows"], before["files"]) == (8, 4)
    assert (before["oldest_ms"], before["newest_ms"]) == (NOON_MS, NOON_MS + 2 * HOUR_MS)
    listed = run(tmp_path, "list").stdout.splitlines()
    assert [line.split()[:3] for line in listed if line.startswith(LIFECYCLE)] == [[LIFECYCLE, "8", "4"]]
    assert any(line.endswith("2023-11-15 12:00:00  2023-11-15 14:00:00") for line in listed)

    assert run(tmp_path, "compact").stdout == "2 files merged into 1, 0 files removed, 0 hours expired\n"
    after = lifecycle(tmp_path)
    assert {**after, "files": 4, "bytes": before["bytes"]} == before
    assert after["files"] == 3
    assert run(tmp_path, "verify").exit_code == 0
    assert "2 files removed" in run(tmp_path, "compact", "--grace-ms", "0").stdout
    assert lifecycle(tmp_path) == after
    assert read(tmp_path, LIFECYCLE).num_rows == 8
    expired = json.loads(run(tmp_path, "compact", "--retention-ms", "0", "--json").stdout)
    assert expired["expired"] == 3
    assert lifecycle(tmp_path)["rows"] == 0


def test_damaged_and_foreign_files_are_named(tmp_path: Path) -> None:
    sound = put(tmp_path, "controller-1", range(200))
    whole = sound.read_bytes()
    folder = sound.parent
    at = whole.index(b"\x28\xb5\x2f\xfd") + 12  # after zstd's magic number
    bad = {
        "torn.parquet": whole[:-3],
        "flipped.parquet": whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :],
        "notes.txt": b"hello",
        "_superseded-1.json": b"{}",
    }
    for name, data in bad.items():
        (folder / name).write_bytes(data)
    pq.write_table(pa.table({"x": [1]}), folder / "foreign.parquet")
    put(tmp_path, "newer", [1], schema=of_version(2))
    misplaced = put(tmp_path, "misplaced", [1], ts_ms=NOON_MS + HOUR_MS).rename(folder / "misplaced.parquet")
    (tmp_path / "metrics" / LIFECYCLE / "date=today").mkdir()
    (tmp_path / "metrics" / LIFECYCLE / "date=today" / "hour=12").mkdir()
    (tmp_path / "metrics" / "sampels").mkdir()
    (tmp_path / "metrics" / "_streams").mkdir()
    (folder / ".killed.parquet.partial").write_bytes(b"PAR1")

    found = run(tmp_path, "verify", "--json")
    assert found.exit_code == 1
    problems = {Path(each["path"]).name: each["problem"] for each in json.loads(found.stdout)}
    assert problems.keys() == {*bad, "foreign.parquet", "newer.parquet", misplaced.name, "hour=12", "sampels"}
    assert problems["misplaced.parquet"].startswith("1 rows are of another hour")
    assert problems["flipped.parquet"].startswith("cannot be read")
    text = run(tmp_path, "verify", LIFECYCLE)
    assert f"DAMAGE: {folder / 'torn.parquet'}: is not a whole Parquet file" in text.stdout
    assert "sampels" not in text.stdout

    listed = run(tmp_path, "list")
    assert listed.exit_code == 0
    assert "3 files cannot be read; see muster tables verify" in listed.stderr


def test_a_compaction_beside_another_is_refused_and_what_it_leaves_is_reported(tmp_path: Path) -> None:
    put(tmp_path, "newer", [1], schema=of_version(2))
    put(tmp_path, "controller-1", [2])
    left = run(tmp_path, "compact")
    assert left.exit_code == 1
    assert "newer.parquet: is of version 2" in left.stderr
    with (tmp_path / "metrics" / ".compaction.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = run(tmp_path, "compact")
    assert refused.exit_code == 1
    assert "another compaction is running" in refused.stderr


@pytest.mark.parametrize("command", ["list", "verify", "compact"])
def test_help_names_every_option(command: str) -> None:
    text = runner().invoke(tables, [command, "--help"]).stdout
    assert "--storage" in text
    assert "--json" in text
