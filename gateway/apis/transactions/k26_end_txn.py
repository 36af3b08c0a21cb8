"""EndTxn (api key 26), v0-5.

v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH | v3 flexible | v4 TRANSACTION_ABORTABLE
v5 the next transaction has another epoch, which is in the response (KIP-890)
"""

from __future__ import annotations

from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import WRITE_TRANSACTIONAL_ID, transactional_id
from muster.gateway.apis.transactions.forwarding import error_body, forward
from muster.gateway.listener.api import Call, Reply, api


@api(26, "EndTxn", guard=Guard(Need((WRITE_TRANSACTIONAL_ID,), transactional_id)), error_body=error_body)
async def end_txn(call: Call) -> Reply | None:
    return await forward(call, call.entity().transactional_id)
