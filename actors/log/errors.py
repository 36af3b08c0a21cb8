"""Everything the log refuses, each with the Kafka error code that a client gets for it."""

from __future__ import annotations

from typing import ClassVar

from kio.schema.errors import ErrorCode


class LogError(Exception):
    """Base. ``code`` is what goes into the response; the message says what happened, for the operator."""

    code: ClassVar[ErrorCode] = ErrorCode.unknown_server_error

    def again(self) -> LogError:
        """A fresh exception that says the same, for the next caller that failed of the same cause."""
        copy = type(self)(*self.args)
        copy.__cause__ = self.__cause__
        return copy


class CorruptMessage(LogError):
    """The bytes are no whole, undamaged record batch."""

    code = ErrorCode.corrupt_message


class UnsupportedMessageFormat(LogError):
    """A message set of format 0 or 1 (before KIP-98)."""

    code = ErrorCode.unsupported_for_message_format


class UnsupportedCompression(LogError):
    """A codec that Kafka's protocol does not name."""

    code = ErrorCode.unsupported_compression_type


class InvalidRecord(LogError):
    """Whole and undamaged, but no client may send it."""

    code = ErrorCode.invalid_record


class InvalidTimestamp(LogError):
    """The timestamp type is the broker's to choose."""

    code = ErrorCode.invalid_timestamp


class InvalidTxnState(LogError):
    """A transactional batch outside of any transaction."""

    code = ErrorCode.invalid_txn_state


class MessageTooLarge(LogError):
    """Larger than max.message.bytes."""

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


class OffsetOutOfRange(LogError):
    """Before the log's start or after its end."""

    code = ErrorCode.offset_out_of_range


class PolicyViolation(LogError):
    """Records of a topic that is compacted only are not deleted by offset."""

    code = ErrorCode.policy_violation


class NotLeader(LogError):
    """This process does not, or no longer, own the partition."""

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
    """The disk refused, or holds what cannot be right."""

    code = ErrorCode.kafka_storage_error


class CorruptSegment(StorageError):
    """A segment that is set aside: the offsets in it are not served."""


class UnknownTopicId(LogError):
    """No topic has that id."""

    code = ErrorCode.unknown_topic_id


class UnknownTopicOrPartition(LogError):
    """No topic has that name, or it has fewer partitions."""

    code = ErrorCode.unknown_topic_or_partition


class InvalidRequest(LogError):
    """The request contradicts itself."""

    code = ErrorCode.invalid_request


class InvalidRequiredAcks(LogError):
    """acks is none of -1, 0 and 1."""

    code = ErrorCode.invalid_required_acks


class UnsupportedTimestamp(LogError):
    """A negative timestamp with no meaning in ListOffsets v10."""

    code = ErrorCode.unsupported_version
