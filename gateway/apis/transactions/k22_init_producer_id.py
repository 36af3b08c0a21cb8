"""InitProducerId (api key 22), v0-6.

v3 producer id and epoch of a producer that wants a higher epoch (KIP-360) | v4 PRODUCER_FENCED
v5 TRANSACTION_ABORTABLE | v6 two-phase commit (KIP-939), which is refused
Any gateway gives an idempotent producer, without a transactional id, a new id with epoch 0, whatever it had before: as
in Kafka. COORDINATOR_LOAD_IN_PROGRESS, sent while the controller is unavailable, is retried by all clients.
"""

from __future__ import annotations

from muster.actors.group.errors import ApiError
from muster.actors.transactions.apis.arguments import check_arguments
from muster.actors.transactions.codec import adapters
from muster.actors.transactions.messages import InitProducerIdResponse
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import (
    IDEMPOTENT_WRITE,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    the_cluster,
    transactional_id,
)
from muster.gateway.apis.transactions.forwarding import error_body, forward
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.controller import ControllerUnavailable


class _Idempotent(Need):
    """A producer without a transactional id."""

    def refusal(self, call: Call) -> ErrorCode | None:
        if call.entity().transactional_id is not None or IDEMPOTENT_WRITE.allowed(call, logged=False):
            return None
        return None if call.allows_any(*WRITE_TOPIC) else self.error


_GUARD = Guard(
    Need((WRITE_TRANSACTIONAL_ID,), transactional_id),
    _Idempotent((WRITE_TOPIC, IDEMPOTENT_WRITE), the_cluster, "without a transactional id: of any topic, or else"),
)


@api(22, "InitProducerId", guard=_GUARD, error_body=error_body)
async def init_producer_id(call: Call) -> Reply | None:
    name = call.entity().transactional_id
    if name:
        return await forward(call, name)
    header = call.header
    request = adapters.decode(header.api_key, header.api_version, call.entity())
    try:
        check_arguments(call.gateway.transaction_config, request)
        producer_id = await call.gateway.next_producer_id()
    except ApiError as refused:
        return call.reply(error_body(call, refused.error))
    except ControllerUnavailable:
        return call.reply(error_body(call, ErrorCode.coordinator_load_in_progress))
    response = InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    return call.reply(adapters.encode(header.api_version, response))
