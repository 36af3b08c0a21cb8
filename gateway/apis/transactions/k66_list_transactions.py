"""ListTransactions (api key 66), v0-2.

v1 filter by duration (KIP-994) | v2 filter by pattern of transactional ids (KIP-1152)
A gateway lists the transactions of the partitions for which FindCoordinator returns it, as ListGroups does; an admin
client queries all gateways. If one of these partitions is down, the whole response is an error.
"""

from __future__ import annotations

from itertools import compress

from muster.actors.group.errors import ApiError
from muster.actors.transactions.apis.admin import pattern_of, unknown_states
from muster.actors.transactions.codec import adapters
from muster.actors.transactions.messages import ListTransactions
from muster.actors.wire.kafka import codec
from muster.gateway.apis.coordinators import Listed, call_owner, listed
from muster.gateway.apis.guards.guard import Guard
from muster.gateway.apis.guards.rights import DESCRIBE_TRANSACTIONAL_ID
from muster.gateway.apis.transactions.forwarding import DOWN, error_body
from muster.gateway.listener.api import Call, Reply, Rule, api
from muster.placement.view import TRANSACTIONS

LIST_TRANSACTIONS = 66


_GUARD = Guard(inside=(Rule((DESCRIBE_TRANSACTIONAL_ID,), "", None),))


@api(LIST_TRANSACTIONS, "ListTransactions", guard=_GUARD, error_body=error_body, one_at_a_time=True)
async def list_transactions(call: Call) -> Reply | None:
    gateway, header = call.gateway, call.header
    request = adapters.decode(header.api_key, header.api_version, call.entity())
    assert isinstance(request, ListTransactions)
    try:
        pattern_of(request)
    except ApiError as refused:
        return call.reply(error_body(call, refused.error))
    mine = [
        partition
        for partition in gateway.view.transactions
        if (broker := gateway.view.coordinator_of(partition, TRANSACTIONS)) is not None and broker.id == gateway.id
    ]
    failed, states = await listed(mine, lambda partition: _list(call, partition))
    body = {
        "throttle_time": 0,
        "error_code": failed,
        "unknown_state_filters": unknown_states(request),
        "transaction_states": (),
    }
    return call.reply_joined(body, states)


async def _list(call: Call, partition: int) -> Listed:
    frame = await call_owner(call, partition, TRANSACTIONS, call.frame)
    if frame is None:
        return DOWN, []
    version = call.header.api_version
    _, response = codec.decode_response(LIST_TRANSACTIONS, version, frame)
    names = [each.transactional_id for each in response.transaction_states]
    seen = [DESCRIBE_TRANSACTIONAL_ID.allowed(call, name, logged=False) for name in names]
    return response.error_code, [*compress(codec.split_response(LIST_TRANSACTIONS, version, frame), seen)]
