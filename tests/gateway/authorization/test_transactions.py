"""A client that may describe some of the transactional ids that it names."""

from __future__ import annotations

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from tests.gateway.authorization.acls import acl
from tests.gateway.group_client import Fresh
from tests.gateway.serving import Serving

PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
    "transaction.state.log.num.partitions": "1",
}
FIND_COORDINATOR, INIT_PRODUCER_ID, DESCRIBE = 10, 22, 65


def test_a_transaction_that_has_not_begun_is_described_beside_one_that_is_refused(full: Serving, fresh: Fresh) -> None:
    """Its time is -1, which kio writes, but does not read."""
    own, other = fresh("own"), fresh("other")
    rules = [acl(f"ALLOW {right} TRANSACTIONAL_ID {own}", "User:ANONYMOUS") for right in ("WRITE", "DESCRIBE")]
    full.run(full.controller.create_acls(rules))
    full.exchange(FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": [own]})
    new = {"transactional_id": own, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    assert full.exchange(INIT_PRODUCER_ID, 4, new).error_code is ErrorCode.none
    with full.connect() as client:
        client.request(DESCRIBE, 0, {"transactional_ids": [other, own]})
        refused, described = codec.split_response(DESCRIBE, 0, client.receive())
    assert int.from_bytes(refused[:2], "big") == ErrorCode.transactional_id_authorization_failed
    assert int.from_bytes(described[:2], "big") == ErrorCode.none
    assert (other.encode() in refused, own.encode() in described) == (True, True)
    assert b"Empty" in described
