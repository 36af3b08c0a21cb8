"""The table ``end_offsets``, as a log actor writes it: the real service, and Parquet files read back."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from muster.actors.log.history import LogHistory
from tests.log.support import NOW_MS, client_batch, request, run, view_of
from tests.log.test_partitions import FLIGHTS, OTHER, Cluster
from tests.table_rows import table_rows

pytestmark = pytest.mark.usefixtures("either_storage")

FAR_MS = 3_600_000
"""Between two rounds: these tests run rounds on demand."""


class Clock:
    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def __call__(self) -> int:
        return self.now_ms


class Written(Cluster):
    """A service that writes the table."""

    def __init__(self, storage: Path, clock: Clock) -> None:
        self.history = LogHistory(storage, 0, flush_ms=FAR_MS, topics=lambda: self.view, now_ms=clock)
        super().__init__(storage, on_open=self.history.opened, now_ms=clock)

    async def close(self) -> None:
        await self.partitions.close()
        await self.history.close()


def recorded(storage: Path) -> list[dict[str, Any]]:
    """Rows by time; those of one round by topic and partition."""
    return sorted(table_rows(storage, "end_offsets"), key=lambda row: (row["ts"], row["topic"], row["partition"]))


def ends(storage: Path) -> list[tuple[Any, ...]]:
    columns = ("topic", "partition", "epoch", "log_start_offset", "log_end_offset", "last_append")
    return [tuple(row[name] for name in columns) for row in recorded(storage)]


def test_a_row_for_each_partition_that_moved_and_none_for_others(tmp_path: Path) -> None:
    async def main() -> None:
        clock = Clock()
        cluster = Written(tmp_path, clock)
        await cluster.produce((FLIGHTS.topic_id, 0, client_batch(3)), (FLIGHTS.topic_id, 1, client_batch(1)))
        await cluster.history.round()
        clock.now_ms += 10_000
        await cluster.produce((FLIGHTS.topic_id, 1, client_batch(2)))
        clock.now_ms += 1
        await cluster.produce((FLIGHTS.topic_id, 1, client_batch(2)))
        clock.now_ms += 9
        await cluster.history.round()
        clock.now_ms += 10_000
        await cluster.fetch((FLIGHTS.topic_id, 0, 0))
        await cluster.history.round()
        await cluster.partitions.delete_records(_deletion("flights", 0, 2))
        await cluster.close()

    run(main())
    assert ends(tmp_path) == [
        ("flights", 0, 1, 0, 3, NOW_MS),
        ("flights", 1, 1, 0, 1, NOW_MS),
        ("flights", 1, 1, 0, 5, NOW_MS + 10_001),
        ("flights", 0, 1, 2, 3, NOW_MS),
    ]
    rows = recorded(tmp_path)
    assert [row["ts"] - NOW_MS for row in rows] == [0, 0, 10_010, 20_010]
    sizes = [len(client_batch(count)) for count in (3, 1, 2, 2)]
    assert [row["size_bytes"] for row in rows] == [sizes[0], sizes[1], sum(sizes[1:]), sizes[0]]
    assert {row["log"] for row in rows} == {0}


def test_a_new_process_records_each_partition_once_with_its_last_append(tmp_path: Path) -> None:
    async def main() -> None:
        clock = Clock()
        first = Written(tmp_path, clock)
        await first.produce((FLIGHTS.topic_id, 0, client_batch(3)), (OTHER.topic_id, 0, client_batch(1)))
        await first.close()
        clock.now_ms += 60_000
        second = Written(tmp_path, clock)
        second.epochs.update({("flights", 0): 1, ("other.topic_1", 0): 1})
        await second.fetch((FLIGHTS.topic_id, 0, 0), (OTHER.topic_id, 0, 0), (FLIGHTS.topic_id, 2, 0))
        await second.history.round()
        await second.history.round()
        await second.close()

    run(main())
    assert [row["ts"] - NOW_MS for row in recorded(tmp_path)] == [0, 0, 60_000, 60_000, 60_000]
    assert ends(tmp_path)[2:] == [
        ("flights", 0, 2, 0, 3, NOW_MS),
        ("flights", 2, 1, 0, 0, None),
        ("other.topic_1", 0, 2, 0, 1, NOW_MS),
    ]


def test_what_became_durable_while_the_actor_stopped_is_in_the_last_row(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Written(tmp_path, Clock())
        await cluster.produce((FLIGHTS.topic_id, 0, client_batch(2)))
        await cluster.history.round()
        cluster.partitions.submit(FLIGHTS.topic_id, 0, client_batch(4))
        await cluster.close()

    run(main())
    assert [row[4] for row in ends(tmp_path)] == [2, 6]


def test_a_round_looks_at_no_partition_that_did_not_move(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Written(tmp_path, Clock())
        await cluster.produce((FLIGHTS.topic_id, 0, client_batch(2)), (FLIGHTS.topic_id, 1, client_batch(2)))
        looked: list[int] = []
        news_of = cluster.history._news_of

        def watched(known: Any) -> Any:
            looked.append(known.partition)
            return news_of(known)

        cluster.history._news_of = watched  # type: ignore[method-assign]
        await cluster.history.round()
        await cluster.history.round()
        await cluster.produce((FLIGHTS.topic_id, 1, client_batch(1)))
        await cluster.history.round()
        assert sorted(looked[:2]) == [0, 1]
        assert looked[2:] == [1]
        await cluster.close()

    run(main())
    assert [row[:2] for row in ends(tmp_path)] == [("flights", 0), ("flights", 1), ("flights", 1)]


def test_a_deleted_topic_is_not_recorded(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Written(tmp_path, Clock())
        await cluster.produce((FLIGHTS.topic_id, 0, client_batch(2)), (OTHER.topic_id, 0, client_batch(2)))
        cluster.view = view_of(OTHER, version=2)
        await cluster.partitions.view_changed(cluster.view)
        await cluster.close()

    run(main())
    assert [row[0] for row in ends(tmp_path)] == ["other.topic_1"]


def test_without_a_folder_for_the_table_all_is_served_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "metrics").write_text("a file where the folder should be")

    async def main() -> None:
        cluster = Written(tmp_path, Clock())
        cluster.history._writer._flushing._flush_s = 0.01
        cluster.history.start()
        for _ in range(20):
            [response] = await cluster.produce((FLIGHTS.topic_id, 0, client_batch(1)))
            assert response.error_code == 0
            await cluster.history.round()
        while not said():
            await cluster.fetch((FLIGHTS.topic_id, 0, 20), max_wait_ms=50)
        await cluster.close()

    def said() -> list[str]:
        return [record.message for record in caplog.records if record.name == "muster.actors.runtime.event_writer"]

    with caplog.at_level(logging.ERROR):
        run(main())
    assert len(said()) == 1
    assert "end_offsets stay in their spool" in said()[0]


def _deletion(topic: str, partition: int, offset: int) -> Any:
    body = {
        "topics": [{"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}],
        "timeout": 1000,
    }
    return request(21, 2, body)
