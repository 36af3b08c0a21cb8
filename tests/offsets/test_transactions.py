"""Transactions in the shell of an offsets partition: verification, markers, and what the next actor finds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from muster.actors.log.config import LogConfig
from muster.actors.wire.internal.channel import Channel, ChannelLost
from muster.actors.wire.internal.markers import NO_DECISION, Marked, Marker
from muster.actors.wire.internal.verification import VerifyRequest
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.view import OFFSETS_TOPIC
from tests.offsets.shell import GROUP, TOPIC_ID, Shell, commit, committed, exchange, run

E = ErrorCode
P = 1000


class Coordinator:
    """A transaction coordinator's answers, given beforehand."""

    def __init__(self, *errors: ErrorCode) -> None:
        self.errors = [*errors]
        self.seen: list[VerifyRequest] = []
        self.queried = asyncio.Event()
        self.may_respond = asyncio.Event()
        self.may_respond.set()

    async def verify(self, request: VerifyRequest) -> list[ErrorCode]:
        self.seen.append(request)
        self.queried.set()
        await self.may_respond.wait()
        return [self.errors.pop(0) if self.errors else E.none]


async def txn_commit(
    channel: Channel, offset: int, *, version: int = 4, epoch: int = 0, metadata: str = "", **body: Any
) -> ErrorCode:
    items = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": metadata}]
    fields = {"group_id": GROUP, "transactional_id": "x", "producer_id": P, "producer_epoch": epoch, **body}
    topics = [{"name": "t", "partitions": items}]
    response = await exchange(channel, 28, version, **fields, topics=topics)
    error: ErrorCode = response.topics[0].partitions[0].error_code
    return error


def a_marker(*, commit: bool = True, epoch: int = 0, decision: int = NO_DECISION, **fields: Any) -> Marker:
    made = Marker(P, epoch, 3, commit, 0, decision, 0, [(TOPIC_ID, 0)])
    return made._replace(**fields)


async def mark(channel: Channel, *markers: Marker) -> list[list[ErrorCode]]:
    done: asyncio.Future[Marked | ChannelLost] = asyncio.get_running_loop().create_future()
    channel.mark(markers, done.set_result, timeout_s=10)
    marked = await done
    assert not isinstance(marked, ChannelLost)
    return marked


async def stable(channel: Channel) -> tuple[int, ErrorCode]:
    wanted = {"group_id": GROUP, "topics": [{"name": "t", "partition_indexes": [0]}]}
    response = await exchange(channel, 9, 8, groups=[wanted], require_stable=True)
    (found,) = response.groups[0].topics[0].partitions
    return found.committed_offset, found.error_code


def test_a_transaction_from_verification_to_marker(tmp_path: Path) -> None:
    async def scenario() -> None:
        coordinator = Coordinator()
        shell = Shell(tmp_path / "log", 1, verifier=coordinator)
        channel = await shell.serve(tmp_path / "a.sock")
        assert await commit(channel, 3) == {E.none}
        assert await txn_commit(channel, 5) is E.none
        assert coordinator.seen == [VerifyRequest("x", P, 0, [(OFFSETS_TOPIC, 0)], add=False, transaction_version=0)]
        assert await txn_commit(channel, 6) is E.none
        assert len(coordinator.seen) == 1, "an open transaction needs no verification"
        assert await stable(channel) == (-1, E.unstable_offset_commit)
        assert await committed(channel) == {0: 3}
        assert await mark(channel, a_marker()) == [[E.none]]
        assert await stable(channel) == (6, E.none)
        assert await txn_commit(channel, 7, version=5) is E.none
        assert coordinator.seen[1:] == [VerifyRequest("x", P, 0, [(OFFSETS_TOPIC, 0)], add=True, transaction_version=2)]
        assert await mark(channel, a_marker(commit=False, epoch=1)) == [[E.none]]
        assert await stable(channel) == (6, E.none)
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


def test_the_next_actor_knows_what_is_pending(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1, verifier=Coordinator())
        channel = await shell.serve(tmp_path / "1.sock")
        assert await commit(channel, 3) == {E.none}
        assert await txn_commit(channel, 5) is E.none
        await shell.partition.stop()
        await shell.server.stop()
        for life, (commits, expected) in enumerate([(True, 5), (False, 5)], start=2):
            unused = Coordinator(E.unknown_server_error)
            shell = Shell(tmp_path / "log", life, verifier=unused)
            channel = await shell.serve(tmp_path / f"{life}.sock")
            assert await stable(channel) == (-1, E.unstable_offset_commit)
            assert await txn_commit(channel, expected) is E.none
            assert not unused.seen, "the log knows the open transaction"
            assert await mark(channel, a_marker(commit=commits)) == [[E.none]]
            assert await stable(channel) == (5, E.none)
            unused.errors.clear()
            assert await txn_commit(channel, 9) is E.none
            await shell.partition.stop()
            await shell.server.stop()

    run(scenario)


@pytest.mark.parametrize(
    ("said", "version", "error"),
    [
        (E.concurrent_transactions, 4, E.concurrent_transactions),
        (E.network_exception, 4, E.coordinator_load_in_progress),
        (E.network_exception, 1, E.coordinator_not_available),
        (E.coordinator_load_in_progress, 3, E.coordinator_load_in_progress),
        (E.coordinator_load_in_progress, 1, E.coordinator_not_available),
        (E.coordinator_not_available, 4, E.coordinator_not_available),
        (E.not_coordinator, 4, E.not_coordinator),
        (E.producer_fenced, 4, E.invalid_producer_epoch),
        (E.transaction_abortable, 4, E.transaction_abortable),
        (E.transaction_abortable, 3, E.invalid_txn_state),
        (E.invalid_txn_state, 4, E.invalid_txn_state),
        (E.invalid_producer_id_mapping, 4, E.invalid_producer_id_mapping),
        (E.invalid_request, 3, E.invalid_request),
        (E.cluster_authorization_failed, 4, E.invalid_txn_state),
    ],
)
def test_what_a_client_gets_if_its_transaction_is_not_confirmed(
    tmp_path: Path, said: ErrorCode, version: int, error: ErrorCode
) -> None:
    async def scenario() -> None:
        coordinator = Coordinator(said)
        shell = Shell(tmp_path / "log", 1, verifier=coordinator)
        channel = await shell.serve(tmp_path / "a.sock")
        assert await txn_commit(channel, 5, version=version) is error
        assert await stable(channel) == (-1, E.none)
        assert await txn_commit(channel, 5, version=version) is E.none
        assert len(coordinator.seen) == 2
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


def test_without_verification_only_the_newest_protocol_is_verified(tmp_path: Path) -> None:
    """The property is for all partitions, as in Kafka, those of offsets, too."""

    async def scenario() -> None:
        coordinator = Coordinator()
        config = LogConfig(transaction_partition_verification_enable=False)
        shell = Shell(tmp_path / "log", 1, log=config, verifier=coordinator)
        channel = await shell.serve(tmp_path / "a.sock")
        assert await txn_commit(channel, 5) is E.none
        assert coordinator.seen == []
        assert await stable(channel) == (-1, E.unstable_offset_commit)
        assert await mark(channel, a_marker()) == [[E.none]]
        assert await stable(channel) == (5, E.none)
        assert await txn_commit(channel, 6, version=5, epoch=1) is E.none
        assert [request.add for request in coordinator.seen] == [True]
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


def test_arguments_are_refused_without_a_coordinator(tmp_path: Path) -> None:
    async def scenario() -> None:
        coordinator = Coordinator()
        shell = Shell(tmp_path / "log", 1, verifier=coordinator)
        channel = await shell.serve(tmp_path / "a.sock")
        assert await txn_commit(channel, 5, group_id="") is E.invalid_group_id
        assert coordinator.seen == []
        assert await txn_commit(channel, 5, generation_id=1) is E.illegal_generation
        assert len(coordinator.seen) == 1, "only then the group is looked at"
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


def test_without_a_verifier_no_transaction_commits_offsets(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1)
        channel = await shell.serve(tmp_path / "a.sock")
        assert await txn_commit(channel, 5) is E.coordinator_not_available
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


def test_a_coordinator_that_waits_for_its_marker_is_not_waited_for(tmp_path: Path) -> None:
    """Everything else continues, and the marker takes away what its transaction's late commit would need."""

    async def scenario() -> None:
        coordinator = Coordinator()
        shell = Shell(tmp_path / "log", 1, verifier=coordinator)
        channel = await shell.serve(tmp_path / "a.sock")
        coordinator.may_respond.clear()
        late = asyncio.ensure_future(txn_commit(channel, 5))
        await coordinator.queried.wait()
        assert await commit(channel, 3) == {E.none}
        assert await mark(channel, a_marker()) == [[E.none]]
        coordinator.may_respond.set()
        assert await late is E.invalid_txn_state
        assert await stable(channel) == (3, E.none)
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


def test_a_partition_that_stops_responds_to_those_that_wait_for_a_coordinator(tmp_path: Path) -> None:
    async def scenario() -> None:
        coordinator = Coordinator()
        shell = Shell(tmp_path / "log", 1, verifier=coordinator)
        channel = await shell.serve(tmp_path / "a.sock")
        coordinator.may_respond.clear()
        late = asyncio.ensure_future(txn_commit(channel, 5))
        await coordinator.queried.wait()
        await shell.partition.stop()
        assert await late is E.not_coordinator
        assert await mark(channel, a_marker()) == [[E.not_leader_or_follower]]
        await shell.server.stop()

    run(scenario)


def test_a_late_attempt_of_a_marker_does_not_end_the_next_transaction(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1, verifier=Coordinator())
        channel = await shell.serve(tmp_path / "a.sock")
        assert await txn_commit(channel, 5) is E.none
        first = a_marker(decision=10)
        assert await mark(channel, first, first) == [[E.none], [E.none]]
        assert await txn_commit(channel, 6) is E.none
        assert await mark(channel, first, a_marker(decision=9, commit=False)) == [[E.none], [E.none]]
        assert await stable(channel) == (-1, E.unstable_offset_commit)
        assert await mark(channel, a_marker(decision=11)) == [[E.none]]
        assert await stable(channel) == (6, E.none)
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


def test_old_producers_and_coordinators_are_refused_and_change_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1, verifier=Coordinator())
        channel = await shell.serve(tmp_path / "a.sock")
        assert await txn_commit(channel, 5, epoch=4) is E.none
        assert await txn_commit(channel, 6, epoch=3) is E.invalid_producer_epoch
        assert await mark(channel, a_marker(epoch=3)) == [[E.invalid_producer_epoch]]
        assert await stable(channel) == (-1, E.unstable_offset_commit)
        assert await mark(channel, a_marker(epoch=4)) == [[E.none]]
        assert await mark(channel, a_marker(epoch=4, coordinator_epoch=2)) == [[E.transaction_coordinator_fenced]]
        assert await stable(channel) == (5, E.none)
        assert not shell.ended.is_set()
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


def test_a_commit_that_is_too_large_is_refused_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1, verifier=Coordinator())
        channel = await shell.serve(tmp_path / "a.sock")
        wide = [
            {"partition_index": index, "committed_offset": 1, "committed_metadata": "m" * 4000} for index in range(300)
        ]
        response = await exchange(
            channel,
            28,
            3,
            transactional_id="x",
            group_id=GROUP,
            producer_id=P,
            producer_epoch=0,
            topics=[{"name": "t", "partitions": wide}],
        )
        assert {each.error_code for each in response.topics[0].partitions} == {E.unknown_server_error}
        assert await stable(channel) == (-1, E.none)
        assert await txn_commit(channel, 5) is E.none
        assert not shell.ended.is_set()
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


@pytest.mark.parametrize("linger_ms", [-1, 0, 50])
def test_the_log_has_the_order_of_the_steps(tmp_path: Path, linger_ms: int) -> None:
    """Whatever lingers is written before a transactional batch, and before a marker."""

    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1, verifier=Coordinator(), group_coordinator_append_linger_ms=linger_ms)
        channel = await shell.serve(tmp_path / "a.sock")
        assert await txn_commit(channel, 0) is E.none
        results: Sequence[object] = await asyncio.gather(
            commit(channel, 1), txn_commit(channel, 2), commit(channel, 3), mark(channel, a_marker())
        )
        assert results == [{E.none}, E.none, {E.none}, [[E.none]]]
        assert await stable(channel) == (3, E.none)
        assert await txn_commit(channel, 4) is E.none
        results = await asyncio.gather(commit(channel, 5), mark(channel, a_marker()), commit(channel, 6, partitions=2))
        assert results == [{E.none}, [[E.none]], {E.none}]
        await shell.partition.stop()
        await shell.server.stop()
        again = Shell(tmp_path / "log", 2)
        channel = await again.serve(tmp_path / "b.sock")
        assert await committed(channel) == {0: 6, 1: 6}
        await again.partition.stop()
        await again.server.stop()

    run(scenario)


def test_markers_for_other_partitions_are_not_executed_here(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1, verifier=Coordinator())
        channel = await shell.serve(tmp_path / "a.sock")
        assert await txn_commit(channel, 5) is E.none
        both = a_marker(partitions=[(TOPIC_ID, 1), (TOPIC_ID, 0)])
        assert await mark(channel, both, a_marker(partitions=[])) == [[E.not_leader_or_follower, E.none], []]
        assert await mark(channel) == []
        assert await stable(channel) == (5, E.none)
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)
