"""Which decisions are counted, and which denials are in the log: each once, and none that only leaves something out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.security.acls import AclFilter
from tests.gateway.apis.test_data_apis import PRODUCE, fetch_body, produce_body
from tests.gateway.authorization.acls import acl
from tests.gateway.faults.test_fault_responses import body_of
from tests.gateway.group_client import OFFSET_FETCH, Fresh, find
from tests.gateway.serving import Serving
from tests.log.support import client_batch

PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
    "group.initial.rebalance.delay.ms": "0",
}
FETCH, METADATA, HEARTBEAT, LIST_GROUPS, CREATE_TOPICS, INIT_PRODUCER_ID, LIST_TRANSACTIONS, DESCRIBE_TOPICS = (
    *(1, 3, 12, 16, 19, 22, 66, 75),
)
DESCRIBE_CLUSTER = 60
Allow = Callable[..., None]
Denials = Callable[[], list[str]]


@pytest.fixture
def allow(full: Serving) -> Iterator[Allow]:
    def create(*rules: str) -> None:
        full.run(full.controller.create_acls([acl(rule, "User:ANONYMOUS") for rule in rules]))

    yield create
    full.run(full.controller.delete_acls([AclFilter()]))


@pytest.fixture
def denials(full: Serving, caplog: pytest.LogCaptureFixture) -> Denials:
    """Return a function that gives each denial since the last call, also those that repeat.

    A denial is operation, resource, request and count.
    """
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")

    def found() -> list[str]:
        async def flush() -> None:
            full.gateway.authorization_log.flush()

        full.run(flush())
        lines = [record.getMessage() for record in caplog.records if record.name == "kafka.authorizer.logger"]
        caplog.clear()
        return [_short(line) for line in lines]

    found()
    return found


def _short(line: str) -> str:
    words = line.split()
    after = {word: words[at + 2] for at, word in enumerate(words[:-2]) if words[at + 1] == "="}
    request = line.rpartition("request = ")[2].partition(" with ")[0]
    return f"{after['operation']} {after['resource']} {request} {after['resourceRefCount']}"


def counted(full: Serving) -> tuple[int, int]:
    """Decisions that allowed, and that denied."""
    of = full.gateway.metrics._authorizations
    return of[True], of[False]


def test_a_fetch_is_judged_once_for_each_topic(full: Serving, fresh: Fresh, allow: Allow, denials: Denials) -> None:
    topic, other = full.create(fresh("t"), 2), full.create(fresh("t"))
    allow(f"ALLOW READ TOPIC {other.name}")
    before = counted(full)
    full.exchange(FETCH, 12, fetch_body((topic, 0, 0), (topic, 1, 0), (other, 0, 0)))
    assert denials() == [f"READ Topic:LITERAL:{topic.name} Fetch 2"]
    assert counted(full) == (before[0] + 1, before[1] + 1)


@pytest.mark.parametrize("is_allowed", [True, False])
def test_a_fetch_that_continues_its_session_is_judged_again(
    full: Serving, fresh: Fresh, allow: Allow, denials: Denials, is_allowed: bool
) -> None:
    topic = full.create(fresh("t"))
    if is_allowed:
        allow(f"ALLOW READ TOPIC {topic.name}")
    before = counted(full)
    with full.connect() as client:
        first = client.exchange(FETCH, 12, fetch_body((topic, 0, 0), session_epoch=0))
        for epoch in (1, 2):
            body = fetch_body(session_id=first.session_id, session_epoch=epoch)
            assert client.exchange(FETCH, 12, body).session_id == first.session_id
    added = (counted(full)[0] - before[0], counted(full)[1] - before[1])
    assert added == ((3, 0) if is_allowed else (0, 3))
    assert len(denials()) == (0 if is_allowed else 2)  # the first, and the number of the others


def test_a_refused_request_is_judged_once(full: Serving, fresh: Fresh, denials: Denials) -> None:
    """Also one that would be forwarded, and whose refusal is written later."""
    group, before = fresh("g"), counted(full)
    full.exchange(HEARTBEAT, 4, body_of(HEARTBEAT, full.create(fresh("t")), group))
    assert denials() == [f"READ Group:LITERAL:{group} Heartbeat 1"]
    assert counted(full) == (before[0], before[1] + 1)


def test_a_right_that_suffices_beside_another_is_logged_alone(full: Serving, fresh: Fresh, denials: Denials) -> None:
    topic = full.create(fresh("t"))
    full.exchange(CREATE_TOPICS, 7, body_of(CREATE_TOPICS, topic, "g"))
    assert denials() == [f"CREATE Topic:LITERAL:{topic.name} CreateTopics 1"]


def test_what_is_left_out_is_not_logged(full: Serving, fresh: Fresh, allow: Allow, denials: Denials) -> None:
    topic, group, hidden = full.create(fresh("t")), fresh("g"), fresh("g")
    allow(f"ALLOW DESCRIBE GROUP {group}", f"ALLOW WRITE TOPIC {fresh('w')}", f"ALLOW DESCRIBE GROUP {hidden}")
    find(full.client, 4, group, hidden)
    topics = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    everything = {"topics": None, "allow_auto_topic_creation": True, **topics}
    assert topic.name not in repr(full.exchange(METADATA, 10, everything))
    full.exchange(LIST_GROUPS, 4, {"states_filter": []})
    full.exchange(LIST_TRANSACTIONS, 0, body_of(LIST_TRANSACTIONS, topic, group))
    all_topics = {"topics": [], "response_partition_limit": 2000, "cursor": None}
    assert full.exchange(DESCRIBE_TOPICS, 0, all_topics).topics == ()
    full.exchange(OFFSET_FETCH, 7, {"group_id": group, "topics": None, "require_stable": False})
    full.exchange(DESCRIBE_CLUSTER, 0, {"include_cluster_authorized_operations": True})
    init = {"transactional_id": None, "transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1}
    assert full.exchange(INIT_PRODUCER_ID, 4, init).error_code is ErrorCode.none
    assert denials() == []


def test_http_requests_are_counted_and_logged(full: Serving, denials: Denials) -> None:
    before = counted(full)
    assert full.http("/v1/groups/lag?group=secret")[0] == 403
    assert denials() == ["DESCRIBE Group:LITERAL:secret GET /v1/groups/lag 1"]
    assert counted(full) == (before[0], before[1] + 1)
    assert full.http("/metrics")[0] == 200
    assert denials() == []


@pytest.mark.parametrize("by", ["topic", "transactional id"])
def test_without_acks_a_refusal_closes_the_connection(full: Serving, fresh: Fresh, allow: Allow, by: str) -> None:
    """There is no response that could say so."""
    topic = full.create(fresh("t"))
    refused = client_batch(1)
    if by == "transactional id":
        allow(f"ALLOW WRITE TOPIC {topic.name}")
        refused = client_batch(1, producer=(1, 0, 0), transactional=True)
    with full.connect() as client:
        client.request(PRODUCE, 12, produce_body((topic, 0, refused), acks=0))
        assert client.is_closed()
