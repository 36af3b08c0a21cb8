"""The errors of the log, each with the Kafka error code that a client gets."""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from muster.actors.wire.internal.produce import RecordError


class LogError(Exception):
    """Base. ``code`` goes into the response; the message tells the operator what happened."""

    code: ErrorCode = ErrorCode.unknown_server_error

    def again(self) -> LogError:
        """Return a new exception with the same content, for the next caller that fails for the same reason."""
        copy = type(self)(*self.args)
        copy.__cause__ = self.__cause__
        return copy


class CorruptMessage(LogError):
    """The bytes are not one whole, undamaged record batch."""

    code = ErrorCode.corrupt_message


class UnsupportedCompression(LogError):
    """A codec that Kafka's protocol does not name."""

    code = ErrorCode.unsupported_compression_type


class InvalidRecord(LogError):
    """An undamaged batch that clients may not send, also one of format 0 or 1 (before KIP-98)."""

    code = ErrorCode.invalid_record


class InvalidRecords(LogError):
    """Some records of a batch, for which it is refused as a whole (KIP-467)."""

    def __init__(self, code: ErrorCode, text: str, record_errors: Sequence[RecordError]) -> None:
        super().__init__(code, text, record_errors)
        self.code = code
        self.record_errors = record_errors
        """In ascending order of their indexes."""

    def __str__(self) -> str:
        return str(self.args[1])


class InvalidTimestamp(LogError):
    """Only the broker may choose the timestamp type."""

    code = ErrorCode.invalid_timestamp


class InvalidTxnState(LogError):
    """A transactional batch outside of any transaction."""

    code = ErrorCode.invalid_txn_state


class NotVerified(LogError):
    """The coordinator has not confirmed a transaction, for any reason."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(code, text)
        self.code = code

    def __str__(self) -> str:
        return str(self.args[1])


class MessageTooLarge(LogError):
    """Larger than max.message.bytes, or than what may be compressed."""

    code = ErrorCode.message_too_large


class RecordListTooLarge(LogError):
    """Larger than segment.bytes."""

    code = ErrorCode.record_list_too_large


class OutOfOrderSequence(LogError):
    """A batch of an idempotent producer that does not follow its predecessor."""

    code = ErrorCode.out_of_order_sequence_number


class InvalidProducerEpoch(LogError):
    """A newer instance of this producer has written already."""

    code = ErrorCode.invalid_producer_epoch


class TransactionCoordinatorFenced(LogError):
    """A newer coordinator has ended a transaction of this producer already."""

    code = ErrorCode.transaction_coordinator_fenced


class OffsetOutOfRange(LogError):
    """Before the log's start or after its end."""

    code = ErrorCode.offset_out_of_range


class PolicyViolation(LogError):
    """Records of a topic that is only compacted cannot be deleted by offset."""

    code = ErrorCode.policy_violation


class NotLeader(LogError):
    """This process does not own the partition, or no longer owns it."""

    code = ErrorCode.not_leader_or_follower


class FencedEpoch(NotLeader):
    """The directory already belongs to the same or a newer leader epoch."""


class FencedLeaderEpoch(LogError):
    """The client knows an older leader epoch than the log (KIP-320)."""

    code = ErrorCode.fenced_leader_epoch


class UnknownLeaderEpoch(LogError):
    """The client knows a newer leader epoch than the log (KIP-320)."""

    code = ErrorCode.unknown_leader_epoch


class StorageError(LogError):
    """The disk failed, or its content is invalid."""

    code = ErrorCode.kafka_storage_error


class CorruptSegment(StorageError):
    """A segment is set aside: its offsets are not served."""


class UnknownTopicId(LogError):
    """No topic has that id."""

    code = ErrorCode.unknown_topic_id


class UnknownTopicOrPartition(LogError):
    """No topic has that name, or it has fewer partitions."""

    code = ErrorCode.unknown_topic_or_partition


class UnsupportedTimestamp(LogError):
    """A negative timestamp with no meaning in ListOffsets v10."""

    code = ErrorCode.unsupported_version
