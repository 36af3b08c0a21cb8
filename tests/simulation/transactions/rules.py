"""Rules after every step of the coordinator, and at the end, judged by the log where that is possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from muster.actors.group.types import Record
from muster.actors.transactions.codec.records import decode_key, decode_value
from muster.actors.transactions.coordinator import TransactionCoordinator
from muster.actors.transactions.messages import AddOffsetsToTxn, AddPartitionsToTxn, EndTxn, InitProducerId
from muster.actors.transactions.state import TransactionMetadata
from muster.actors.transactions.state import TransactionState as S
from muster.actors.transactions.types import MarkerRequest, TransactionalId
from muster.actors.wire.internal.verification import VerifyRequest
from tests.simulation.planted.broken import Broken
from tests.simulation.transactions.partition import Partition, Tag

E = ErrorCode


def broken(invariant: str, detail: str) -> Broken:
    return Broken(detail, invariant)


OUTCOMES = {S.PREPARE_COMMIT: S.COMPLETE_COMMIT, S.PREPARE_ABORT: S.COMPLETE_ABORT}
_IDLE = (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)


class Log:
    """The durable records, and the last value of each id."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.values: dict[TransactionalId, TransactionMetadata] = {}
        self._owners: dict[int, TransactionalId] = {}

    def append(self, record: Record) -> None:
        """Add a record, which must follow from the last one of its id."""
        name = decode_key(record.key)
        assert name is not None
        before = self.values.get(name)
        self.records.append(record)
        if record.value is None:
            if before is None or before.state not in _IDLE:
                raise broken("only_idle_ids_expire", f"{name} {before}")
            del self.values[name]
            return
        after = self.values[name] = decode_value(record.value)
        if self._owners.setdefault(after.producer_id, name) != name:
            raise broken("a_producer_id_is_given_once", f"{after.producer_id} to {name}")
        if before is not None:
            _check_successor(name, before, after)

    def value_at(self, offset: int) -> TransactionMetadata:
        return decode_value(self.records[offset].value or b"")


def _check_successor(name: str, before: TransactionMetadata, after: TransactionMetadata) -> None:
    if (wanted := OUTCOMES.get(before.state)) is not None and after.state is not wanted:
        raise broken("an_outcome_never_changes", f"{name}: {before} then {after}")
    if before.state is S.ONGOING and after.state in _IDLE:
        raise broken("every_transaction_is_decided", f"{name}: {before} then {after}")
    if before.producer_id == after.producer_id:
        if after.producer_epoch < before.producer_epoch:
            raise broken("epochs_never_fall", f"{name}: {before} then {after}")
    elif before.producer_epoch < 32_766:
        raise broken("epochs_are_used_up", f"{name}: {before} then {after}")
    if before.state is S.ONGOING and after.state is S.ONGOING and not after.partitions >= before.partitions:
        raise broken("partitions_stay_in_their_transaction", f"{name}: {before} then {after}")


def check_state(core: TransactionCoordinator, log: Log, unwritten: Sequence[Record]) -> None:
    """Check that the coordinator's state is what its log and the records under way say."""
    values = dict(log.values)
    for record in unwritten:
        name = decode_key(record.key)
        assert name is not None
        if record.value is None:
            del values[name]
        else:
            values[name] = decode_value(record.value)
    state = {name: entry.metadata for name, entry in core.hard_state.entries.items()}
    if values != state:
        raise broken("records_say_what_the_state_is", f"{values} but {state}")


def check_markers(log: Log, markers: Sequence[MarkerRequest]) -> None:
    """Markers say what the durable decision says."""
    for marker in markers:
        if marker.decision >= len(log.records):
            raise broken("markers_follow_the_decision", f"{marker}")
        value = log.value_at(marker.decision)
        wanted = S.PREPARE_COMMIT if marker.commit else S.PREPARE_ABORT
        says = (value.state, value.producer_id, value.producer_epoch, value.client_transaction_version)
        sent = (wanted, marker.producer_id, marker.producer_epoch, marker.transaction_version)
        if says != sent or not value.partitions.issuperset(marker.partitions):
            raise broken("markers_say_what_was_decided", f"{marker}: {value}")


def check_complete(
    records: Sequence[Record], decided: Mapping[TransactionalId, TransactionMetadata], taken: Mapping[str, set[Any]]
) -> None:
    """Check that the last record of a transaction follows the confirmation of every partition."""
    for record in records:
        name = decode_key(record.key)
        if name is None or record.value is None or decode_value(record.value).state not in OUTCOMES.values():
            continue
        if missing := decided[name].partitions - taken.get(name, set()):
            raise broken("complete_after_every_marker", f"{name}: {missing}")


def check_reply(log: Log, request: Any, response: Any) -> None:
    """Check that a success rests on what is durable."""
    match request:
        case InitProducerId() if response.error_code is E.none and request.transactional_id is not None:
            value = log.values.get(request.transactional_id)
            given = (response.producer_id, response.producer_epoch)
            if value is None or (value.producer_id, value.producer_epoch) != given or value.state is not S.EMPTY:
                raise broken("a_success_is_durable", f"{request}: {response}, the log says {value}")
        case EndTxn() if response.error_code is E.none:
            _check_end(log.values.get(request.transactional_id), request, response)
        case AddOffsetsToTxn() if response.error_code is E.none:
            _check_added(log, request, frozenset())
        case VerifyRequest():
            places = zip(request.partitions, response.errors, strict=True)
            _check_added(log, request, frozenset(place for place, error in places if error is E.none))
        case AddPartitionsToTxn():
            for transaction, result in zip(request.transactions, response.results_by_transaction, strict=True):
                added = frozenset(
                    (topic.name, partition.partition_index)
                    for topic in result.topic_results
                    for partition in topic.results_by_partition
                    if partition.partition_error_code is E.none
                )
                _check_added(log, transaction, added)


def _check_added(log: Log, request: Any, places: frozenset[Any]) -> None:
    if not places and not isinstance(request, AddOffsetsToTxn):
        return
    value = log.values.get(request.transactional_id)
    producer = (request.producer_id, request.producer_epoch)
    if value is None or value.state is not S.ONGOING or not value.partitions >= places:
        raise broken("a_success_is_durable", f"{request}: {places}, the log says {value}")
    if (value.producer_id, value.producer_epoch) != producer:
        raise broken("no_success_for_the_fenced", f"{request}, the log says {value}")


def _check_end(value: TransactionMetadata | None, request: EndTxn, response: Any) -> None:
    wanted = {S.PREPARE_COMMIT, S.COMPLETE_COMMIT} if request.committed else {S.PREPARE_ABORT, S.COMPLETE_ABORT}
    if value is None or value.state not in wanted:
        raise broken("a_success_is_durable", f"{request}, the log says {value}")
    present = (value.producer_id, value.producer_epoch)
    if request.api_version < 5:
        if present != (request.producer_id, request.producer_epoch):
            raise broken("no_success_for_the_fenced", f"{request}, the log says {value}")
        return
    if value.next_producer_id >= 0:
        present = (value.next_producer_id, 0)
    if present != (response.producer_id, response.producer_epoch):
        raise broken("the_end_gives_the_present_producer", f"{request}: {response}, the log says {value}")
    if request.producer_id == value.producer_id and request.producer_epoch != value.producer_epoch - 1:
        raise broken("no_success_for_the_fenced", f"{request}, the log says {value}")


class Promises:
    """Knowledge of producers about their transactions."""

    def __init__(self) -> None:
        self.written: dict[Tag, set[tuple[str, int]]] = {}
        """Batches that were acknowledged."""
        self.commit_requested: set[Tag] = set()
        self.committed: set[Tag] = set()
        self.aborted: set[Tag] = set()


def check_end(partitions: Mapping[tuple[str, int], Partition], promises: Promises) -> None:
    """After everything has settled: nothing is open, and each transaction is visible as a whole or not at all."""
    for partition in partitions.values():
        for producer_id, state in partition.producers.items():
            if state.is_open:
                raise broken("nothing_hangs", f"{producer_id} in {partition.place}: {state}")
    for tag, places in promises.written.items():
        seen = {place for place in places if tag in partitions[place].committed}
        anywhere = {place for place, partition in partitions.items() if tag in partition.committed}
        if tag in promises.committed and seen != places:
            raise broken("what_is_committed_is_visible", f"{tag}: {places - seen}")
        if (tag in promises.aborted or tag not in promises.commit_requested) and anywhere:
            raise broken("what_is_aborted_is_not_visible", f"{tag}: {anywhere}")
        if anywhere and seen != places:
            raise broken("all_or_nothing", f"{tag}: {places - seen} missing, {seen} visible")
