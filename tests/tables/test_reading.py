"""The valid files of a table, and the refused ones: with pyarrow; tests/spark/test_tables.py for Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muster.actors.tables import hours
from muster.actors.tables.hours import EXPIRED, Manifest
from muster.actors.tables.reading import TableDamaged, files, folder_of, read
from muster.actors.tables.schemas.cluster import LIFECYCLE, LIFECYCLE_SCHEMA
from tests.tables.events import HOUR_MS, NOON_MS
from tests.tables.making import merged, of_version, put, with_column, without


def epochs(storage: Path, start_ms: int | None = None, end_ms: int | None = None) -> list[int]:
    return sorted(read(storage, LIFECYCLE, start_ms, end_ms, columns=["epoch"]).column("epoch").to_pylist())


def test_an_empty_table_has_the_schema(tmp_path: Path) -> None:
    assert read(tmp_path, LIFECYCLE).schema.names == LIFECYCLE_SCHEMA.names
    folder_of(tmp_path, LIFECYCLE).mkdir(parents=True)
    assert read(tmp_path, LIFECYCLE).num_rows == 0


def test_only_hours_that_touch_the_range_are_opened_and_only_its_rows_returned(tmp_path: Path) -> None:
    """There is no hour 14; the start is in the middle of an hour, and the end is exclusive."""
    for epoch, ts_ms in enumerate((NOON_MS, NOON_MS + HOUR_MS // 2, NOON_MS + HOUR_MS, NOON_MS + 3 * HOUR_MS)):
        put(tmp_path, f"controller-{epoch}", [epoch], ts_ms=ts_ms)
    put(tmp_path, "controller-broken", [9], ts_ms=NOON_MS - HOUR_MS).write_bytes(b"PAR1")
    assert epochs(tmp_path, NOON_MS + HOUR_MS // 2, NOON_MS + 3 * HOUR_MS) == [1, 2]
    assert epochs(tmp_path, NOON_MS) == [0, 1, 2, 3]
    assert epochs(tmp_path, NOON_MS, NOON_MS) == []


def test_what_is_superseded_or_hidden_or_no_parquet_does_not_count(tmp_path: Path) -> None:
    first, second = put(tmp_path, "controller-1", [1]), put(tmp_path, "controller-2", [2])
    put(tmp_path, "controller-3", [3])
    put(tmp_path, ".controller-4", [4])
    put(tmp_path, "_controller-5", [5])
    (first.parent / "notes.txt").write_text("hello")
    merged(tmp_path, 1, [first, second], [1, 2])
    assert [path.name for path in files(tmp_path, LIFECYCLE)] == ["controller-3.parquet", "merged-1.parquet"]
    assert epochs(tmp_path) == [1, 2, 3]


def test_a_manifest_without_its_merged_file_says_nothing(tmp_path: Path) -> None:
    first = put(tmp_path, "controller-1", [1])
    merged(tmp_path, 1, [first], [1]).unlink()
    assert epochs(tmp_path) == [1]


def test_a_merged_file_without_its_manifest_is_damage(tmp_path: Path) -> None:
    first = put(tmp_path, "controller-1", [1])
    merged(tmp_path, 1, [first], [1])
    (first.parent / "_superseded-1.json").unlink()
    with pytest.raises(TableDamaged, match="manifest"):
        read(tmp_path, LIFECYCLE)


def test_a_merged_file_that_is_removed_while_its_folder_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was merged again long ago; the next read finds its replacement."""
    first = put(tmp_path, "controller-1", [1])
    old = merged(tmp_path, 1, [first], [1])
    new = merged(tmp_path, 2, [first, old], [1])
    manifest = Manifest.read

    def gone_just_before(path: Path) -> Manifest:
        if path.name == "_superseded-1.json" and old.exists():
            old.unlink()
            path.unlink()
        return manifest(path)

    monkeypatch.setattr(Manifest, "read", staticmethod(gone_just_before))
    assert hours.listing(first.parent).live == (new.name,)


def test_an_expired_hour_does_not_count(tmp_path: Path) -> None:
    first = put(tmp_path, "controller-1", [1])
    (first.parent / EXPIRED).write_text("{}")
    put(tmp_path, "controller-1", [2], ts_ms=NOON_MS + HOUR_MS)
    assert epochs(tmp_path) == [2]


def test_a_file_of_an_older_version_has_nulls(tmp_path: Path) -> None:
    put(tmp_path, "controller-1", [1], schema=without("reason", "pid"))
    put(tmp_path, "controller-2", [2], reason="killed")
    found = read(tmp_path, LIFECYCLE).sort_by("epoch")
    assert found.column("reason").to_pylist() == [None, "killed"]


def test_a_column_of_later_is_passed_over(tmp_path: Path) -> None:
    put(tmp_path, "controller-1", [1], schema=with_column(pa.field("colour", pa.string())), colour="red")
    assert read(tmp_path, LIFECYCLE).schema.names == LIFECYCLE_SCHEMA.names


def test_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    put(tmp_path, "controller-1", [1])
    path = put(tmp_path, "controller-2", [2], schema=of_version(2))
    with pytest.raises(TableDamaged) as refused:
        read(tmp_path, LIFECYCLE)
    assert str(refused.value) == f"{path}: is of version 2 of lifecycle, this Muster reads up to 1: use a newer one"


def test_a_file_of_another_table_is_refused(tmp_path: Path) -> None:
    schema = LIFECYCLE_SCHEMA.arrow.with_metadata({**LIFECYCLE_SCHEMA.arrow.metadata, b"muster.table": b"faults"})
    put(tmp_path, "controller-1", [1], schema=schema)
    with pytest.raises(TableDamaged, match="is a file of the table faults, not of lifecycle"):
        read(tmp_path, LIFECYCLE)


def test_a_file_without_our_metadata_counts_if_it_has_the_columns(tmp_path: Path) -> None:
    put(tmp_path, "generated", [1], schema=LIFECYCLE_SCHEMA.arrow.remove_metadata())
    assert epochs(tmp_path) == [1]
    pq.write_table(pa.table({"x": [1]}), put(tmp_path, "foreign", []))
    with pytest.raises(TableDamaged, match="has not the columns of lifecycle: ts, actor, kind, event, seen_by"):
        read(tmp_path, LIFECYCLE)


@pytest.mark.parametrize("length", [0, 3, 4, 8, 200, -1, -9])
def test_a_file_that_is_cut_off_is_refused_by_name(tmp_path: Path, length: int) -> None:
    path = put(tmp_path, "controller-1", [1])
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(TableDamaged, match=r"controller-1\.parquet: is not a whole Parquet file"):
        read(tmp_path, LIFECYCLE)


def test_a_damaged_page_is_reported_with_the_name_of_its_file(tmp_path: Path) -> None:
    put(tmp_path, "controller-1", [1])
    path = put(tmp_path, "controller-2", range(100))
    data = bytearray(path.read_bytes())
    data[4:300] = bytes(296)
    path.write_bytes(data)
    with pytest.raises(TableDamaged, match=r"controller-2\.parquet: cannot be read"):
        read(tmp_path, LIFECYCLE)
