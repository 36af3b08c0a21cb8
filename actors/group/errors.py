"""Refusals, and the client's view of a failed append."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from muster.actors.group.types import MemberId, Phase


class ApiError(Exception):
    """The request is answered with ``error``, and with ``member_id`` if JoinGroup must not echo the request's.

    ``message``: Kafka's text, for the APIs that send one.
    """

    def __init__(self, error: ErrorCode, member_id: MemberId | None = None, *, message: str | None = None) -> None:
        super().__init__(error)
        self.error = error
        self.member_id = member_id
        self.message = message


class CorruptRecord(ValueError):
    """A record of the log is unreadable: loading the partition has failed."""


NOT_SERVED = {
    Phase.LOADING: ErrorCode.coordinator_load_in_progress,
    Phase.RESIGNED: ErrorCode.not_coordinator,
}
"""The error for a request in each phase but the active one."""

_NOT_WRITTEN = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
    ErrorCode.invalid_fetch_size: ErrorCode.unknown_server_error,
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
}


def translate(error: ErrorCode) -> ErrorCode:
    """Return the client's error for a failed append, like Kafka's CoordinatorOperationExceptionHelper."""
    return _NOT_WRITTEN.get(error, error)


_NOT_VERIFIED = {
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
    ErrorCode.producer_fenced: ErrorCode.invalid_producer_epoch,
    ErrorCode.cluster_authorization_failed: ErrorCode.invalid_txn_state,
}
_KNOWS_ABORTABLE = 4
"""The first version of TxnOffsetCommit with TRANSACTION_ABORTABLE (KIP-1050)."""


def not_verified(error: ErrorCode, api_version: int) -> ErrorCode:
    """Return the client's error for a TxnOffsetCommit whose transaction the coordinator has not confirmed (KIP-890)."""
    if error is ErrorCode.transaction_abortable and api_version < _KNOWS_ABORTABLE:
        return ErrorCode.invalid_txn_state
    return _NOT_VERIFIED.get(error, error)
