"""InitProducerId (api key 22), v0-6: ids for idempotent producers.

v3 producer id and epoch of a producer that wants a higher epoch (KIP-360) | v6 two-phase commit (KIP-939)
A producer without a transactional id always gets a new id with epoch 0, whatever it had before: as in Kafka.

Transactions come with a later version; FindCoordinator reports that before a client gets here. A client that gets here
nevertheless receives TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which every client treats as fatal at once (there is no
field for a message). COORDINATOR_LOAD_IN_PROGRESS, sent while the controller is unavailable, is retried by all clients.
"""

from __future__ import annotations

from typing import Any

from muster.actors.wire.codec import ErrorCode, field
from muster.gateway.apis.transactions import log_refusal
from muster.gateway.listener.controller import ControllerUnavailable
from muster.gateway.listener.registry import Call, Reply, api

_NO_ID, _NO_EPOCH = -1, -1


@api(22, "InitProducerId", error_body=lambda _, error: _body(error, _NO_ID, _NO_EPOCH))
async def init_producer_id(call: Call) -> Reply | None:
    request = call.entity()
    if (error := _error(request)) is not ErrorCode.none:
        if request.transactional_id:
            log_refusal(call, request.transactional_id)
        return call.reply(_body(error, _NO_ID, _NO_EPOCH))
    try:
        producer_id = await call.gateway.next_producer_id()
    except ControllerUnavailable:
        return call.reply(_body(ErrorCode.coordinator_load_in_progress, _NO_ID, _NO_EPOCH))
    return call.reply(_body(ErrorCode.none, producer_id, 0))


def _error(request: Any) -> ErrorCode:
    has_id = field(request, "producer_id", _NO_ID) != _NO_ID
    has_epoch = field(request, "producer_epoch", _NO_EPOCH) != _NO_EPOCH
    if has_id != has_epoch or request.transactional_id == "":
        return ErrorCode.invalid_request
    if request.transactional_id is not None:
        return ErrorCode.transactional_id_authorization_failed
    return ErrorCode.none


def _body(error: ErrorCode, producer_id: int, epoch: int) -> dict[str, Any]:
    return {"throttle_time": 0, "error_code": error, "producer_id": producer_id, "producer_epoch": epoch}
