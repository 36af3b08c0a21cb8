"""Forwarding of requests about transactions to the actors that coordinate them, and the response while one is down."""

from __future__ import annotations

from muster.actors.group.errors import ApiError
from muster.actors.transactions.apis.arguments import check_arguments
from muster.actors.transactions.codec import adapters
from muster.actors.wire.kafka.codec import Body, ErrorCode
from muster.gateway.apis.coordinators import call_owner
from muster.gateway.listener.api import Call, Reply
from muster.placement.view import TRANSACTIONS

DOWN = ErrorCode.coordinator_load_in_progress
"""For a valid request while the actor is down or starting, as by a Kafka broker that loads: every client retries it."""


def error_body(call: Call, error: ErrorCode) -> Body:
    """See :data:`muster.gateway.listener.api.ErrorBody`."""
    return adapters.error_body(call.header.api_key, call.header.api_version, call.entity(), error)


async def call_coordinator(call: Call, transactional_id: str, frame: bytes) -> bytes | None:
    """Return the response of the producer's coordinator to a frame; None if that is down or the channel was lost."""
    return await call_owner(call, call.gateway.transactions_partition_of(transactional_id), TRANSACTIONS, frame)


async def forward(call: Call, transactional_id: str) -> Reply:
    """Serve a request of one producer."""
    frame = await call_coordinator(call, transactional_id, call.frame)
    return Reply((frame,)) if frame is not None else call.reply(error_body(call, down_error(call)))


def down_error(call: Call) -> ErrorCode:
    """Return the error while the coordinator is down. Errors of the request itself take precedence, as in Kafka."""
    header = call.header
    request = adapters.decode(header.api_key, header.api_version, call.entity())
    try:
        check_arguments(call.gateway.transaction_config, request)
    except ApiError as refused:
        return refused.error
    return DOWN
