"""Actors read their own rows from the node and the bucket, wherever they were written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.actors.config import MusterConfig
from muster.actors.object_storage.location import Location
from muster.actors.object_storage.store import ObjectStore
from muster.actors.runtime.event_writer import EventWriter, upload_tables
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.tables import rebalances
from muster.actors.tables.bucket.uploads import upload
from muster.actors.tables.compaction import Policy
from muster.actors.tables.reading import TableDamaged, files, read, read_files
from muster.actors.tables.rebalances import RebalanceStore, encode
from muster.actors.tables.schemas.cluster import LIFECYCLE
from muster.actors.tables.spool import SampleStore
from muster.actors.tables.store import AT_CLOSE
from muster.actors.tables.upkeep import TablesUpkeep
from muster.gateway.attribution.account import End
from muster.gateway.listener.resume import ends
from tests.gateway.listener.test_resume import FLUSH_MS, NOW_MS, sample
from tests.object_storage.conftest import Connect, connect, proxy, service, uri
from tests.tables.bucket.making import epochs, flushed
from tests.tables.events import HOUR_MS, NOON_MS, event
from tests.tables.making import of_version, put
from tests.tables.rebalances import entry

pytestmark = [pytest.mark.ring(name="object-storage"), pytest.mark.timeout(120)]

__all__ = ["connect", "proxy", "service", "uri"]

LATEST = 1 << 62


@pytest.fixture
def nodes(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "a" / "metrics", tmp_path / "b" / "metrics"


def store_on(node: Path, uri: str) -> RebalanceStore:
    return RebalanceStore(node, 7, now_ms=lambda: NOON_MS, bucket=Location.parse(uri))


def add(store: RebalanceStore, *numbers: int) -> None:
    for number in numbers:
        store.add(entry(number), encode(entry(number)))


def recent(store: RebalanceStore) -> list[int]:
    return [each.number for each in store.recent("billing", 100)]


def ended(store: RebalanceStore) -> list[int]:
    return [each.number for each in store.ended((0, 0, 0), (LATEST, NOON_MS + HOUR_MS, LATEST), 100)]


def test_a_coordinator_reads_what_its_predecessor_wrote_on_another_node(
    connect: Connect, uri: str, nodes: tuple[Path, Path]
) -> None:
    bucket = ObjectStore(connect())
    before = store_on(nodes[0], uri)
    add(before, 1, 2)
    before.close()
    asyncio.run(upload(nodes[0], bucket))
    store = store_on(nodes[1], uri)
    add(store, 3)
    store.flush()
    add(store, 4)
    assert recent(store) == [4, 3, 2, 1]
    assert ended(store) == [1, 2, 3, 4]
    store.close()


@pytest.mark.parametrize("read", [recent, ended])
def test_a_file_that_moves_while_it_is_read(
    connect: Connect, uri: str, nodes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, read: object
) -> None:
    bucket, store = ObjectStore(connect()), store_on(nodes[0], uri)
    add(store, 1)
    store.flush()
    original = read_files

    def moved_before(*arguments: object) -> object:
        asyncio.run(upload(nodes[0], bucket))
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(rebalances, "read_files", moved_before)
    assert callable(read)
    assert read(store) == [1]


@pytest.mark.parametrize("read", [recent, ended])
def test_a_file_that_moves_before_it_is_listed(
    connect: Connect, uri: str, nodes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, read: object
) -> None:
    bucket, store = ObjectStore(connect()), store_on(nodes[0], uri)
    add(store, 1)
    store.flush()
    original = store._bucket.hours if store._bucket else None
    assert original is not None

    def moved_after(*arguments: int | None) -> object:
        found = original(*arguments)
        asyncio.run(upload(nodes[0], bucket))
        return found

    monkeypatch.setattr(store._bucket, "hours", moved_after)
    assert callable(read)
    assert read(store) == [1]


def test_the_history_while_the_bucket_is_away(
    connect: Connect,
    uri: str,
    nodes: tuple[Path, Path],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    store = store_on(nodes[0], uri)
    add(store, 1)
    store.flush()
    add(store, 2)
    assert recent(store) == [2, 1]
    assert any("has only what is on this node" in each for each in caplog.messages)
    with pytest.raises(OSError, match=r"127\.0\.0\.1:1"):
        ended(store)  # whoever sends entries on must not take them for all


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("same_node", [False, True])
def test_a_gateways_streams_go_on(
    connect: Connect, uri: str, nodes: tuple[Path, Path], *, moved: bool, same_node: bool
) -> None:
    before = SampleStore(nodes[0], 1, flush_ms=FLUSH_MS, now_ms=lambda: NOW_MS)
    for one in (sample("a", NOW_MS - 9_000, 0, 9), sample("long-ago", NOW_MS - 10 * 60_000, 0, 99)):
        before.add(one)
    before.close()
    other = SampleStore(nodes[0], 11, flush_ms=FLUSH_MS, now_ms=lambda: NOW_MS)
    other.add(sample("elsewhere", NOW_MS - 5_000, 0, 99))
    other.close()
    bucket = connect()
    if moved:
        asyncio.run(upload(nodes[0], ObjectStore(bucket)))
    node = nodes[0] if same_node else nodes[1]
    found = ends(node.parent, 1, now_ms=NOW_MS, flush_ms=FLUSH_MS, bucket=Location.parse(uri))
    known = moved or same_node
    assert found == ([End("a", "m", "10.0.0.1", "rdkafka", "t", 0, 10)] if known else [])


@pytest.mark.parametrize(
    ("start", "end", "rows", "objects"),
    [
        (None, None, [0, 1, 2, 3], 4),
        (1 * HOUR_MS, 3 * HOUR_MS, [1, 2], 2),
        (1 * HOUR_MS + 1, None, [2, 3], 3),
        (None, 2 * HOUR_MS + 1, [0, 1, 2], 3),
        (0, 1, [0], 1),
        (20 * HOUR_MS, None, [], 0),
    ],
)
def test_a_range_of_time(
    connect: Connect, uri: str, tmp_path: Path, start: int | None, end: int | None, rows: list[int], objects: int
) -> None:
    flushed(tmp_path, 0, 1, 2, 3)
    asyncio.run(upload(tmp_path, ObjectStore(connect())))
    from_ms, to_ms = (None if each is None else NOON_MS + each for each in (start, end))
    assert read(uri, LIFECYCLE, from_ms, to_ms)["epoch"].to_pylist() == rows
    found = files(uri, LIFECYCLE, from_ms, to_ms)
    assert len(found) == objects
    assert all(each.startswith(f"{uri}/metrics/lifecycle/date=2023-11-15/hour=1") for each in found)


def test_a_table_is_read_where_an_event_loop_runs(connect: Connect, uri: str, tmp_path: Path) -> None:
    flushed(tmp_path, 1)

    async def notebook() -> list[int]:
        await upload(tmp_path, ObjectStore(connect()))
        return epochs(uri)

    assert asyncio.run(notebook()) == [1]


def test_a_table_of_a_newer_version_is_refused(connect: Connect, uri: str, tmp_path: Path) -> None:
    put(tmp_path, "controller-9", [1], schema=of_version(99))
    asyncio.run(upload(tmp_path / "metrics", ObjectStore(connect())))
    with pytest.raises(TableDamaged, match="is of version 99 of lifecycle") as damaged:
        read(uri, LIFECYCLE)
    assert "controller-9.parquet" in str(damaged.value)


@pytest.fixture
def settings(connect: Connect, uri: str, tmp_path: Path) -> Iterator[ClusterSettings]:
    connect()
    yield ClusterSettings(
        config=MusterConfig.from_properties({}),
        storage=str(tmp_path),
        bucket=uri,
        cluster_id="tables",
        zookeeper="localhost:1",
        host=None,
        gateway_ports=None,
        metrics_ports=None,
        metrics_port=0,
    )
    if finish := AT_CLOSE.get(tmp_path / "metrics"):
        finish.__self__.close()  # type: ignore[attr-defined]


def test_a_process_of_a_cluster_on_a_bucket(settings: ClusterSettings, uri: str) -> None:
    """It uploads what its writers have written by the time at which they are closed."""
    upload_tables(settings)
    upload_tables(settings)

    async def run() -> None:
        writer = EventWriter(
            Path(settings.storage), LIFECYCLE, "controller", flush_ms=3_600_000, now_ms=lambda: NOON_MS
        )
        writer.start()
        writer.add(event(1), event(2))
        await writer.close()

    asyncio.run(run())
    assert epochs(uri) == [1, 2]


def test_upkeep_of_tables_in_a_bucket(connect: Connect, uri: str, tmp_path: Path) -> None:
    from tests.tables.bucket.test_bucket_compaction import fill, names

    fill(ObjectStore(connect()), tmp_path, 1, 2)
    left = tmp_path / "metrics" / ".compaction-killed"
    left.mkdir()
    policy = Policy(delay_ms=0, grace_ms=0, retention_ms=None)
    upkeep = TablesUpkeep(tmp_path / "metrics", policy, now_ms=lambda: NOON_MS + HOUR_MS, bucket=Location.parse(uri))
    for _ in range(2):
        upkeep._round()
    assert epochs(uri) == [1, 2]
    assert len(names(connect())) == 2
    assert not left.exists()
