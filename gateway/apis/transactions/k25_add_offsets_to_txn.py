"""AddOffsetsToTxn (api key 25), v0-4: the partition of ``__consumer_offsets`` of a group is part of the transaction.

v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH | v3 flexible | v4 TRANSACTION_ABORTABLE
"""

from __future__ import annotations

from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import READ_GROUP, WRITE_TRANSACTIONAL_ID, group_id, transactional_id
from muster.gateway.apis.transactions.forwarding import error_body, forward
from muster.gateway.listener.api import Call, Reply, api


@api(
    25,
    "AddOffsetsToTxn",
    guard=Guard(Need((WRITE_TRANSACTIONAL_ID,), transactional_id), Need((READ_GROUP,), group_id)),
    error_body=error_body,
)
async def add_offsets_to_txn(call: Call) -> Reply | None:
    return await forward(call, call.entity().transactional_id)
