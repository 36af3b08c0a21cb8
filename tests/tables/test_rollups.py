"""Roll-ups of samples: the same sums and runs as the samples themselves, or none; whatever is killed or removed."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.actors.tables.compaction import Policy, compact
from muster.actors.tables.hours import HOUR_MS, Hour, hours, listing
from muster.actors.tables.inspection import foreign, verify
from muster.actors.tables.parquet import write_whole
from muster.actors.tables.reading import read
from muster.actors.tables.rollups import files as rollup_files
from muster.actors.tables.rollups.files import folder_of_rollups, rollup_of, write_rollup
from muster.actors.tables.rollups.sums import KEYS, NotSummable, sum_of, sums_of, to_rows
from muster.actors.tables.schemas.samples import SAMPLES, SAMPLES_SCHEMA
from tests.tables.events import NOON_MS
from tests.tables.samples import ROW, put_samples, samples, to_table
from tests.tables.test_compaction import DAY_MS, DUE_MS, GRACE_MS, POLICY, Killed, run, steps_of

BLOCK = 4096


def expected(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the roll-up, the slow way: offset by offset."""
    made: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(row[name] for name in KEYS)
        of = made.setdefault(key, {"minutes": Counter(), "offsets": set(), "blocks": Counter(), "bytes": 0})
        minute, block = (row["ts"] - NOON_MS) // 60_000, row["first_offset"] // BLOCK
        of["bytes"] += row["bytes"]
        of["minutes"] += Counter({(minute, "rows"): 1, (minute, "m"): row["messages"], (minute, "b"): row["bytes"]})
        of["offsets"] |= set(range(row["first_offset"], row["last_offset"] + 1))
        length = row["last_offset"] - row["first_offset"] + 1
        of["blocks"] += Counter({(block, "offsets"): length, (block, "bytes"): row["bytes"]})
    return made


def of_table(table: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows of a roll-up in the same form; without the number of rows by minute, which it does not have."""
    made = {}
    for row in table.to_pylist():
        offsets = [range(run["first_offset"], run["last_offset"] + 1) for run in row["runs"]]
        assert all(one.stop < next_.start for one, next_ in itertools.pairwise(offsets)), "runs touch"
        for part in ("minutes", "runs"):
            assert sum(each["bytes"] for each in row[part]) == row["bytes"]
            assert sum(each["messages"] for each in row[part]) == row["messages"]
        made[tuple(row[name] for name in KEYS)] = {
            "minutes": {
                (of["minute"], short): of[name]
                for of in row["minutes"]
                for short, name in (("m", "messages"), ("b", "bytes"))
            },
            "offsets": {offset for run in offsets for offset in run},
            "blocks": {(of["block"], name): of[name] for of in row["blocks"] for name in ("offsets", "bytes")},
            "bytes": row["bytes"],
        }
    assert len(made) == table.num_rows
    return made


@given(st.lists(st.lists(samples(), min_size=1, max_size=12), min_size=1, max_size=4))
def test_any_division_of_any_rows_gives_the_sums_of_all(parts: list[list[dict[str, Any]]]) -> None:
    found = of_table(to_rows(sum_of([sums_of(to_table(rows), NOON_MS) for rows in parts]), NOON_MS))
    wanted = expected(row for rows in parts for row in rows)
    assert found.keys() == wanted.keys()
    for key, of in wanted.items():
        present = {minute for minute, _ in of["minutes"]}
        assert {minute for minute, _ in found[key]["minutes"]} == present
        for part in ("minutes", "blocks"):
            assert {at: value for at, value in found[key][part].items() if value} == {
                at: value for at, value in of[part].items() if value and at[1] != "rows"
            }
        assert found[key]["offsets"] == of["offsets"]
        assert found[key]["bytes"] == of["bytes"]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"ts": NOON_MS + HOUR_MS}, "another hour"),
        ({"ts": NOON_MS - 1}, "another hour"),
        ({"last_offset": -1}, "ends before"),
        ({"host": None}, "host is null"),
        ({"first_offset": 0, "last_offset": 1 << 62}, "too far apart"),
    ],
)
def test_rows_that_cannot_be_summed_are_refused(wrong: dict[str, Any], why: str) -> None:
    rows = to_table([ROW, {**ROW, **wrong}])
    with pytest.raises(NotSummable, match=why):
        sums_of(rows, NOON_MS)


def hour_of(path: Path) -> Hour:
    return Hour(path.parent, NOON_MS)


def test_a_roll_up_counts_for_exactly_its_file(tmp_path: Path) -> None:
    (path,) = put_samples(tmp_path, "gateway-1", [ROW, {**ROW, "partition": 1}])
    assert rollup_of(path) is None
    write_rollup(path, hour_of(path))
    found = rollup_of(path)
    assert found is not None
    assert pq.ParquetFile(found).read().num_rows == 2
    before = path.read_bytes()
    path.write_bytes(before + b"\0")
    assert rollup_of(path) is None, "another file"
    path.write_bytes(before)
    assert rollup_of(path) == found
    data = found.read_bytes()
    for damage in (b"", data[:-3], data[:4] + data[-4:]):
        found.write_bytes(damage)
        assert rollup_of(path) is None
    newer = pq.ParquetFile(pa.BufferReader(data)).read()
    metadata = {**newer.schema.metadata, b"muster.schema.version": b"2"}
    write_whole(newer.replace_schema_metadata(metadata), found)
    assert rollup_of(path) is None


def test_a_file_that_cannot_be_summed_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_samples(tmp_path, "gateway-1", [{**ROW, "last_offset": -5}])
    (path,) = put_samples(tmp_path, "gateway-2", [ROW])
    assert run(tmp_path, DUE_MS).rolled_up == 1
    assert rollup_of(next(path.parent.glob("merged-*"))) is None
    assert run(tmp_path, DUE_MS + 1).rolled_up == 0
    monkeypatch.setattr(rollup_files, "_MAX_ROWS", 2)
    write_rollup(path, hour_of(path))
    assert rollup_of(path) is None, "too large"


def test_a_large_file_is_summed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollup_files, "_BATCH_ROWS", 7)
    monkeypatch.setattr(rollup_files, "_SUM_AGAIN_ROWS", 5)
    rows = [{**ROW, "partition": n % 3, "first_offset": 10 * n, "last_offset": 10 * n + 9} for n in range(100)]
    (path,) = put_samples(tmp_path, "gateway-1", rows)
    write_rollup(path, hour_of(path))
    found = rollup_of(path)
    assert found is not None
    sums = pq.ParquetFile(found).read()
    assert (sums.num_rows, pc.sum(sums["bytes"]).as_py()) == (3, 100_000)


def test_due_hours_are_rolled_up_also_where_one_file_is_alone(tmp_path: Path) -> None:
    (alone,) = put_samples(tmp_path, "gateway-1", [{**ROW, "ts": NOON_MS + HOUR_MS}])
    for number in range(3):
        put_samples(tmp_path, f"gateway-{number}", [ROW])
    assert run(tmp_path, DUE_MS - 1).rolled_up == 0
    assert run(tmp_path, DUE_MS).rolled_up == 1
    assert run(tmp_path, DUE_MS + HOUR_MS).rolled_up == 1
    assert rollup_of(alone) is not None
    check_rollups(tmp_path, at_least=2)
    (late,) = put_samples(tmp_path, "gateway-9", [{**ROW, "bytes": 7}])
    assert rollup_of(late) is None
    run(tmp_path, DUE_MS + 2 * HOUR_MS)
    check_rollups(tmp_path, at_least=2)
    run(tmp_path, DUE_MS + 2 * HOUR_MS + GRACE_MS)
    assert len(list(folder_of_rollups(late.parent).iterdir())) == 1, "the one of the replaced file went with it"
    assert [*verify(tmp_path / "metrics", SAMPLES), *foreign(tmp_path / "metrics")] == []


def test_rows_without_a_group_are_read_alone(tmp_path: Path) -> None:
    """A job that needs only these skips all other row groups, by the number of nulls in the footer."""
    for number in range(3):
        rows = [{**ROW, "partition": n} for n in range(50)]
        put_samples(tmp_path, f"gateway-{number}", [*rows, {**ROW, "group": None, "reason": "no_group"}])
    before = read(tmp_path, SAMPLES).sort_by([("partition", "ascending"), ("group", "ascending")])
    run(tmp_path, DUE_MS)
    assert read(tmp_path, SAMPLES).sort_by([("partition", "ascending"), ("group", "ascending")]).equals(before)
    (merged,) = (tmp_path / "metrics" / SAMPLES).rglob("merged-*")
    footer = pq.read_metadata(merged)
    column = SAMPLES_SCHEMA.names.index("group")
    groups = [footer.row_group(n) for n in range(footer.num_row_groups)]
    assert [(group.num_rows, group.column(column).statistics.null_count) for group in groups] == [(3, 3), (150, 0)]


def test_retention_removes_roll_ups(tmp_path: Path) -> None:
    (path,) = put_samples(tmp_path, "gateway-1", [ROW])
    run(tmp_path, DUE_MS)
    assert rollup_of(path) is not None
    expiry_ms = NOON_MS + HOUR_MS + 30 * DAY_MS
    run(tmp_path, expiry_ms)
    assert rollup_of(path) is not None, "for readers that began before"
    run(tmp_path, expiry_ms + GRACE_MS)
    assert [each for each in (tmp_path / "metrics").rglob("*") if "hour=" in each.name or each.is_file()] == [
        tmp_path / "metrics" / ".compaction.lock"
    ]


def check_rollups(storage: Path, *, at_least: int = 0) -> None:
    """Every roll-up that counts has exactly what its file has."""
    found = 0
    for hour in hours(storage / "metrics" / SAMPLES):
        for name in listing(hour.path).live:
            rollup = rollup_of(hour.path / name)
            if rollup is not None:
                found += 1
                whole = to_rows(sums_of(pq.ParquetFile(hour.path / name).read(), hour.start_ms), hour.start_ms)
                assert of_table(pq.ParquetFile(rollup).read()) == of_table(whole)
    assert found >= at_least


def test_killed_before_any_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each step, roll-ups that count are right; and the next run completes what the killed one began."""
    for kill_at in range(200):
        storage = tmp_path / str(kill_at)
        for number in range(2):
            put_samples(storage, f"gateway-{number}", [{**ROW, "gateway": number}])
        run(storage, DUE_MS)
        put_samples(storage, "gateway-2", [{**ROW, "gateway": 2}])
        left = kill_at

        def before_each() -> None:
            nonlocal left
            left -= 1
            if left == -1:
                raise Killed

        for at_ms in (DUE_MS + GRACE_MS, DUE_MS + 2 * GRACE_MS, DUE_MS + 3 * GRACE_MS):
            with monkeypatch.context() as patch, contextlib.suppress(Killed):
                steps_of(patch, before_each)
                compact(storage / "metrics", POLICY, lambda at_ms=at_ms: at_ms)
            check_rollups(storage)
        run(storage, DUE_MS + 5 * GRACE_MS)
        run(storage, DUE_MS + 7 * GRACE_MS)
        check_rollups(storage, at_least=1)
        assert len([*(storage / "metrics" / rollup_files.FOLDER).rglob("*.parquet")]) == 1
        assert not [*storage.rglob("*.partial")]
        assert pc.sum(read(storage, SAMPLES)["bytes"]).as_py() == 3000
        if left >= 0:
            break
    assert kill_at > 10


def test_a_damaged_file_is_a_problem_and_has_no_roll_up(tmp_path: Path) -> None:
    (path,) = put_samples(tmp_path, "gateway-1", [ROW] * 100)
    data = bytearray(path.read_bytes())
    data[data.index(b"\x28\xb5\x2f\xfd") + 12] ^= 1  # after zstd's magic number
    path.write_bytes(data)
    outcome = compact(tmp_path / "metrics", Policy(0, 0, None), lambda: DUE_MS)
    assert outcome is not None
    assert outcome.rolled_up == 0
    assert [problem.split(":")[0] for problem in outcome.problems] == [str(path)]
    assert rollup_of(path) is None


def test_verify_finds_a_roll_up_that_is_damaged_or_wrong(tmp_path: Path) -> None:
    (path,) = put_samples(tmp_path, "gateway-1", [{**ROW, "partition": n} for n in range(100)])
    run(tmp_path, DUE_MS)
    found = rollup_of(path)
    assert found is not None
    data = found.read_bytes()
    torn = bytearray(data)
    torn[torn.index(b"\x28\xb5\x2f\xfd") + 12] ^= 1  # after zstd's magic number
    rows = pq.ParquetFile(pa.BufferReader(data)).read()
    found.write_bytes(torn)
    (damage,) = verify(tmp_path / "metrics", SAMPLES)
    assert str(damage).startswith(f"{found}: cannot be read")
    write_whole(rows.slice(1), found)
    (damage,) = verify(tmp_path / "metrics", SAMPLES)
    assert damage.path == found
    assert "other sums" in damage.problem
    found.unlink()
    assert not [*verify(tmp_path / "metrics", SAMPLES)]
