"""The table ``repairs``, as the reconciler writes it with a real ZooKeeper."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from muster.actors.reconciler.counts import RepairCounts
from muster.actors.reconciler.history import RepairHistory
from muster.actors.runtime.event_writer import EventWriter
from muster.actors.runtime.process import wall_ms
from muster.placement.mapping.nodes import client_path, encode_registration, kop_path, registration_path
from muster.placement.mapping.repair import Create
from muster.placement.mapping.writes import Outcome
from muster.placement.zookeeper.client import ZooKeeperClient
from tests.placement.strategies import GROUPS, registration
from tests.reconciler.test_reconciler import (
    eventually,
    everything,
    expected,
    offsets_topic,
    running,
    same,
)
from tests.table_rows import table_rows

__all__ = ["offsets_topic"]


def writer_in(storage: Path) -> EventWriter:
    return EventWriter(storage, "repairs", "reconciler", flush_ms=3_600_000, now_ms=wall_ms)


def about(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("kind", "outcome", "dry_run", "path", "group", "member_id"))


@pytest.mark.usefixtures("offsets_topic")
def test_a_row_for_each_write_with_whom_it_is_about(zk: ZooKeeperClient, zk_hosts: str, tmp_path: Path) -> None:
    held = everything()
    ghost = registration("billing", "ghost", host="10.9.9.9")
    wrong = next(some for some in held.values() if some)[0]

    async def scenario() -> dict[str, Any]:
        writer = writer_in(tmp_path)
        async with running(zk_hosts, held, history=RepairHistory(writer.add, wall_ms)) as reconciler:
            await eventually(lambda: same(zk, expected(held)), "the mapping is there")
            await asyncio.to_thread(zk.set, registration_path(wrong), b"wrong")
            await asyncio.to_thread(zk.create, registration_path(ghost), encode_registration(ghost), makepath=True)
            await eventually(lambda: _without(zk, client_path(ghost.host, ghost.client_id)), "the ghost is gone")
            await eventually(lambda: same(zk, expected(held)), "the mapping is as it should be")
            status = reconciler.status()
        await writer.close()
        return status

    began_ms = wall_ms()
    status = asyncio.run(scenario())
    rows = table_rows(tmp_path, "repairs")
    done = [about(row) for row in rows if row["outcome"] == "done"]
    assert len(done) >= sum(status["repairs"].values())
    for some in held.values():
        for one in some:
            path = registration_path(one)
            assert ("create_registration", "done", False, path, one.group, one.member_id) in done
    assert len([row for row in done if row[0] == "create_kop" and row[4] in GROUPS]) >= len(GROUPS)
    path = registration_path(ghost)
    assert ("remove_registration", "done", False, path, "billing", "ghost") in done
    assert ("set_registration", "done", False, registration_path(wrong), wrong.group, wrong.member_id) in done
    assert ("remove_folder", "done", False, client_path(ghost.host, ghost.client_id), None, None) in done
    for row in rows:
        assert began_ms <= row["diverged"] <= row["ts"] <= wall_ms()
        assert 1 <= row["round"] <= status["rounds"] + 1
    [removed] = [row for row in rows if row["path"] == path]
    assert removed["diverged"] < removed["ts"], "two rounds in a row have to agree"


async def _without(zk: ZooKeeperClient, path: str) -> bool:
    return await asyncio.to_thread(lambda: not zk.exists(path))


@pytest.mark.usefixtures("offsets_topic")
def test_a_dry_run_records_each_plan_once(zk: ZooKeeperClient, zk_hosts: str, tmp_path: Path) -> None:
    held = everything()

    async def scenario() -> None:
        writer = writer_in(tmp_path)
        async with running(zk_hosts, held, dry_run=True, history=RepairHistory(writer.add, wall_ms)) as reconciler:

            async def after(rounds: int) -> bool:
                return bool(reconciler.status()["rounds"] >= rounds)

            await eventually(lambda: after(3), "three rounds")
        await writer.close()

    asyncio.run(scenario())
    rows = table_rows(tmp_path, "repairs")
    assert {(row["outcome"], row["dry_run"], row["round"]) for row in rows} == {("planned", True, 1)}
    assert sorted(row["path"] for row in rows) == sorted(expected(held))


def test_what_zookeeper_refuses_is_recorded_once_and_what_another_was_faster_with_each_time() -> None:
    rows: list[Any] = []
    one = registration("billing", "m-1", host="10.0.0.1")
    create = Create(registration_path(one), encode_registration(one))
    flat = Create(kop_path("10.0.0.1", "c"), b"billing")
    history, counts = RepairHistory(rows.append, lambda: 5_000), RepairCounts()
    counts._since_s = {create.path: time.monotonic() - 2}
    for outcome in (Outcome.TOO_LARGE, Outcome.TOO_LARGE, Outcome.NEEDLESS, Outcome.LOST, Outcome.TOO_LARGE):
        history.tried(create, outcome, counts, None)
    history.tried(flat, Outcome.DONE, counts, None)
    assert [row["outcome"] for row in rows] == ["refused", "superseded", "superseded", "refused", "done"]
    assert rows[0]["diverged"] <= 3_000
    assert about(rows[-1])[0::3] == ("create_kop", flat.path)
    assert (rows[-1]["group"], rows[-1]["member_id"], rows[-1]["diverged"]) == ("billing", None, None)
