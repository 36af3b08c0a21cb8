"""Checks that are made without the transaction, before it is known whether its partition is served here."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from muster.actors.group.apis.arguments import MAX_STRING_BYTES
from muster.actors.group.errors import ApiError
from muster.actors.transactions.config import TransactionConfig
from muster.actors.transactions.messages import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    EndTxn,
    InitProducerId,
    Request,
)
from muster.actors.transactions.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from muster.actors.wire.internal.verification import VerifyRequest


def check_arguments(config: TransactionConfig, request: Request) -> None:
    """Refuse what Kafka refuses in every state of the coordinator, in Kafka's order. Raises ApiError."""
    if isinstance(request, InitProducerId):
        _check_init(config, request)
    names: tuple[str, ...] = ()
    if isinstance(request, AddOffsetsToTxn | EndTxn | VerifyRequest):
        names = (request.transactional_id,)
    elif isinstance(request, AddPartitionsToTxn):
        names = tuple(each.transactional_id for each in request.transactions)
    if "" in names:
        raise ApiError(ErrorCode.invalid_request)


def _check_init(config: TransactionConfig, request: InitProducerId) -> None:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise ApiError(ErrorCode.invalid_request)
    if request.transactional_id is None:
        return
    if not request.transactional_id:
        raise ApiError(ErrorCode.invalid_request)
    if len(request.transactional_id.encode()) > MAX_STRING_BYTES:
        raise ApiError(ErrorCode.unknown_server_error)
    if request.enable_2pc or request.keep_prepared_txn:
        raise ApiError(ErrorCode.transactional_id_authorization_failed)
    if not 0 < request.transaction_timeout_ms <= config.transaction_max_timeout_ms:
        raise ApiError(ErrorCode.invalid_transaction_timeout)
