"""A coordinator's registrations in a real ZooKeeper, written in the background."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.actors.offsets.mapping_writer import MappingWriter
from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.placement.mapping.nodes import decode_registration, encode_registration, registration_path
from muster.placement.mapping.registration import Registration, Withdrawal
from muster.placement.zookeeper.client import ZooKeeperClient, connect
from tests.placement.strategies import registration
from tests.zookeeper_fixture import eventually

BILLING = registration("billing")


@pytest.fixture
def writer(zk_hosts: str) -> Iterator[MappingWriter]:
    one = MappingWriter(zk_hosts)
    yield one
    one.close(5)


def withdrawal(of: Registration, *, epoch: int = 1, sequence: int) -> Withdrawal:
    return Withdrawal(
        group=of.group,
        member_id=of.member_id,
        offsets_partition=of.offsets_partition,
        epoch=epoch,
        sequence=sequence,
    )


def held(zk: ZooKeeperClient, of: Registration) -> Registration | None:
    path = registration_path(of)
    return decode_registration(path, zk.get(path)[0]) if zk.exists(path) else None


def test_a_registration_comes_changes_and_goes(zk: ZooKeeperClient, writer: MappingWriter) -> None:
    writer.put([BILLING])
    assert writer.flush(10)
    assert held(zk, BILLING) == BILLING
    rebalanced = registration("billing", generation=2, sequence=2, partitions=None)
    writer.put([rebalanced])
    assert writer.flush(10)
    assert held(zk, BILLING) == rebalanced
    writer.put([withdrawal(BILLING, sequence=3)])
    assert writer.flush(10)
    assert held(zk, BILLING) is None


def test_a_member_that_comes_from_elsewhere_leaves_its_old_node(zk: ZooKeeperClient, writer: MappingWriter) -> None:
    moved = registration("billing", host="10.0.0.2", sequence=2)
    writer.put([BILLING])
    writer.flush(10)
    writer.put([moved])
    assert writer.flush(10)
    assert (held(zk, BILLING), held(zk, moved)) == (None, moved)


def test_a_late_coordinator_neither_removes_nor_overwrites_what_is_newer(
    zk: ZooKeeperClient, zk_hosts: str, writer: MappingWriter
) -> None:
    """KoP's third failure: the old owner notices late, after the new one has registered the client again."""
    writer.put([BILLING])
    assert writer.flush(10)
    successor = MappingWriter(zk_hosts)
    newer = registration("billing", epoch=2, sequence=0)
    successor.put([newer])
    assert successor.flush(10)
    writer.put([withdrawal(BILLING, sequence=99)])
    assert writer.flush(10)
    assert held(zk, BILLING) == newer
    writer.put([registration("billing", sequence=100)])
    assert writer.flush(10)
    assert held(zk, BILLING) == newer
    successor.close(5)


def test_data_that_are_no_registration_are_overwritten(zk: ZooKeeperClient, writer: MappingWriter) -> None:
    zk.create(registration_path(BILLING), b"rubbish", makepath=True)
    writer.put([BILLING])
    assert writer.flush(10)
    assert held(zk, BILLING) == BILLING


def test_the_withdrawal_of_an_unknown_member_does_nothing(zk: ZooKeeperClient, writer: MappingWriter) -> None:
    zk.create(registration_path(BILLING), encode_registration(BILLING), makepath=True)
    writer.put([withdrawal(BILLING, sequence=5)])
    assert writer.flush(10)
    assert held(zk, BILLING) == BILLING


def test_closing_removes_nothing(zk: ZooKeeperClient, zk_hosts: str) -> None:
    writer = MappingWriter(zk_hosts)
    writer.put([BILLING])
    writer.close(10)
    assert held(zk, BILLING) == BILLING


def test_an_outage_is_outlived_with_the_newest_state_of_each_node(tmp_path: Path) -> None:
    with EmbeddedZooKeeper.start(tmp_path) as server:
        writer = MappingWriter(server.hosts)
        leaving = registration("billing", "m-2")
        writer.put([BILLING, leaving])
        assert writer.flush(10)
    began = time.monotonic()
    for sequence in range(2, 1002):
        writer.put([registration("billing", sequence=sequence), registration("archive", sequence=sequence)])
    writer.put([withdrawal(leaving, sequence=1002)])
    assert time.monotonic() - began < 60, "a thousand times, and a wait for ZooKeeper is one of 1 s"
    assert writer.backlog <= 3
    assert not writer.flush(0.1)
    with EmbeddedZooKeeper.start(tmp_path, server.port):
        assert writer.flush(30)
        zk = connect(server.hosts, timeout_s=10)
        assert held(zk, BILLING) == registration("billing", sequence=1001)
        assert held(zk, registration("archive")) == registration("archive", sequence=1001)
        assert held(zk, leaving) is None
        assert writer.status() == {"backlog": 0, "written": writer.status()["written"], "failed": 0, "connected": True}
        zk.shut()
        writer.close(5)


def test_it_starts_before_zookeeper_and_closes_without_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedZooKeeper.start(tmp_path) as server:
        hosts = server.hosts
    writer = MappingWriter(hosts)
    writer.put([BILLING])
    began = time.monotonic()
    writer.close(0.2)
    assert time.monotonic() - began < 2
    assert "1 changes of the client-to-group mapping were not written" in caplog.text
    eventually(lambda: "mapping-writer" not in {thread.name for thread in threading.enumerate()}, "its thread ends")
