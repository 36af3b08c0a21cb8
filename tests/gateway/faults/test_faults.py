"""Request faults at a gateway with real log actors and coordinators: what a client sees, and what took effect."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from muster.actors.faults import Fault
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.view import Topic
from pytest_muster import FaultClient
from tests.gateway.apis.test_data_apis import fetch_body, produce_body
from tests.gateway.fault_client import (
    COMMIT_VERSION,
    PROPERTIES,
    answered_commit,
    commit_body,
    committed,
    joined,
    new_group,
    request_commit,
)
from tests.gateway.group_client import FIND_COORDINATOR, OFFSET_COMMIT, Fresh
from tests.gateway.serving import Serving
from tests.log.support import client_batch

__all__ = ["PROPERTIES"]

PRODUCE, FETCH, METADATA, LIST_OFFSETS = 0, 1, 3, 2
COMMIT = "OffsetCommit"
METADATA_BODY = {"topics": [], "include_topic_authorized_operations": False}
LIST_OFFSETS_BODY = {"replica_id": -1, "topics": []}
BEFORE_AND_AFTER = pytest.mark.parametrize("phase", ["before", "after"])


@pytest.fixture
def faults(full: Serving) -> Iterator[FaultClient]:
    """Yield the gateway's fault client; no fault remains afterwards."""
    client = FaultClient(full.http_url + "/metrics")
    yield client
    full.controller.away = False
    client.clear()


@pytest.fixture
def topic(full: Serving, fresh: Fresh) -> Topic:
    return full.create(fresh("t"))


class TestActions:
    """Each before and after the commit took effect."""

    @BEFORE_AND_AFTER
    def test_error(self, full: Serving, faults: FaultClient, fresh: Fresh, topic: Topic, phase: str) -> None:
        group = new_group(full, fresh)
        faults.inject("error", api=COMMIT, group=group, phase=phase, error="REQUEST_TIMED_OUT")
        with full.connect() as client:
            request_commit(client, group, topic, 7)
            assert answered_commit(client) is ErrorCode.request_timed_out
        assert committed(full, group, topic) == {"before": -1, "after": 7}[phase]

    @BEFORE_AND_AFTER
    def test_close(self, full: Serving, faults: FaultClient, fresh: Fresh, topic: Topic, phase: str) -> None:
        """Earlier requests on that connection get their responses first."""
        group = new_group(full, fresh)
        faults.inject("close", api=COMMIT, group=group, phase=phase)
        with full.connect() as client:
            client.request(FIND_COORDINATOR, 4, {"coordinator_keys": [group]})
            request_commit(client, group, topic, 7)
            assert client.response(FIND_COORDINATOR, 4).coordinators[0].error_code is ErrorCode.none
            assert client.is_closed()
        assert committed(full, group, topic) == {"before": -1, "after": 7}[phase]

    @BEFORE_AND_AFTER
    def test_drop(self, full: Serving, faults: FaultClient, fresh: Fresh, topic: Topic, phase: str) -> None:
        """The next request of the connection gets a response as if the lost one had not existed."""
        group = new_group(full, fresh)
        faults.inject("drop", api=COMMIT, group=group, phase=phase, when="once")
        with full.connect() as client:
            request_commit(client, group, topic, 7)
            client.unanswered()
            assert client.exchange(FIND_COORDINATOR, 4, {"coordinator_keys": [group]}).coordinators[0].key == group
        assert committed(full, group, topic) == {"before": -1, "after": 7}[phase]

    @BEFORE_AND_AFTER
    def test_no_response(self, full: Serving, faults: FaultClient, fresh: Fresh, topic: Topic, phase: str) -> None:
        """Later responses of the connection wait behind it, until the fault ends: then it is closed."""
        group = new_group(full, fresh)
        fault = faults.inject("no-answer", api=COMMIT, group=group, phase=phase)
        with full.connect() as client:
            request_commit(client, group, topic, 7)
            client.request(FIND_COORDINATOR, 4, {"coordinator_keys": [group]})
            self._until_hit(faults)
            if phase == "after":
                self._until_committed(full, group, topic)
            assert committed(full, group, topic) == {"before": -1, "after": 7}[phase]
            assert client.has_nothing_for(0.2)
            faults.clear(fault)
            assert client.is_closed()

    @BEFORE_AND_AFTER
    def test_delay(self, full: Serving, faults: FaultClient, fresh: Fresh, topic: Topic, phase: str) -> None:
        """A cleared fault delays nothing any more."""
        group = new_group(full, fresh)
        fault = faults.inject("delay", api=COMMIT, group=group, phase=phase, delay_ms=600_000)
        with full.connect() as client:
            request_commit(client, group, topic, 7)
            self._until_hit(faults)
            if phase == "after":
                self._until_committed(full, group, topic)
            assert committed(full, group, topic) == {"before": -1, "after": 7}[phase]
            assert client.has_nothing_for(0.2)
            faults.clear(fault)
            assert answered_commit(client) is ErrorCode.none
        assert committed(full, group, topic) == 7

    def test_a_delay_ends_by_itself(self, full: Serving, faults: FaultClient, fresh: Fresh, topic: Topic) -> None:
        group = new_group(full, fresh)
        faults.inject("delay", api=COMMIT, group=group, delay_ms=50)
        with full.connect() as client:
            request_commit(client, group, topic, 7)
            assert answered_commit(client) is ErrorCode.none

    @staticmethod
    def _until_hit(faults: FaultClient) -> None:
        while not faults.faults()[0]["hits"]:
            continue

    @staticmethod
    def _until_committed(full: Serving, group: str, topic: Topic) -> None:
        while committed(full, group, topic) == -1:
            continue


def test_requests_of_a_connection_keep_their_order(full: Serving, faults: FaultClient, topic: Topic) -> None:
    """A Produce that waits for a fault is not overtaken by the next one."""
    faults.inject("delay", api="Produce", topic=topic.name, when={"nth": 2}, delay_ms=100)
    with full.connect() as client:
        for number in range(4):
            client.request(PRODUCE, 13, produce_body((topic, 0, client_batch(1, value=b"%d" % number))))
        responses = [client.response(PRODUCE, 13).responses[0].partition_responses[0] for _ in range(4)]
    assert [response.base_offset for response in responses] == [0, 1, 2, 3]


def test_a_produce_without_a_response_closes_the_connection(full: Serving, faults: FaultClient, topic: Topic) -> None:
    """acks=0: there is no response for an error."""
    faults.inject("error", api="Produce", topic=topic.name, error="NOT_LEADER_OR_FOLLOWER")
    with full.connect() as client:
        client.request(PRODUCE, 13, produce_body((topic, 0, client_batch()), acks=0))
        assert client.is_closed()


class TestScopes:
    """Which of two requests that differ in one property is matched."""

    def _errors(self, full: Serving, *requests: tuple[str, int, int, dict[str, Any]]) -> list[str]:
        """Whether each gets a response, on its own connection; otherwise the fault closes it."""
        found = []
        for client_id, api_key, version, body in requests:
            with full.connect(client_id) as client:
                client.request(api_key, version, body)
                try:
                    client.receive()
                    found.append("answered")
                except ConnectionError:
                    found.append("closed")
        return found

    def test_client_id(self, full: Serving, faults: FaultClient) -> None:
        faults.inject("close", client_id="hers", api="Metadata")
        metadata = (METADATA, 12, METADATA_BODY)
        assert self._errors(
            full, ("hers", *metadata), ("his", *metadata), ("hers", LIST_OFFSETS, 1, LIST_OFFSETS_BODY)
        ) == [
            "closed",
            "answered",
            "answered",
        ]

    def test_group_wherever_it_is_named(self, full: Serving, faults: FaultClient, fresh: Fresh) -> None:
        group, other = new_group(full, fresh), new_group(full, fresh)
        faults.inject("close", group=group)
        for name, expected in ((group, "closed"), (other, "answered")):
            requests = (
                (FIND_COORDINATOR, 3, {"key": name, "key_type": 0}),
                (FIND_COORDINATOR, 4, {"coordinator_keys": [other, name]}),
                (15, 5, {"groups": [other, name], "include_authorized_operations": False}),
                (9, 8, {"groups": [{"group_id": name, "topics": None}], "require_stable": False}),
                (42, 2, {"groups_names": [name]}),
            )
            assert self._errors(full, *(("a", *request) for request in requests)) == [expected] * len(requests)

    @pytest.mark.parametrize("named_by", ["id", "instance"])
    def test_member(self, full: Serving, faults: FaultClient, fresh: Fresh, named_by: str) -> None:
        group = fresh("g")
        member, other = joined(full, group, instance=fresh("i")), joined(full, fresh("g"))
        scope = member.id if named_by == "id" else member.instance
        faults.inject("error", member=scope, api="Heartbeat", error="UNKNOWN_MEMBER_ID")
        assert (member.heartbeat(), other.heartbeat()) == (ErrorCode.unknown_member_id, ErrorCode.none)

    @pytest.mark.parametrize("version", [9, 13])
    def test_topic_by_name_and_by_id(self, full: Serving, faults: FaultClient, fresh: Fresh, version: int) -> None:
        topic, other = full.create(fresh("t")), full.create(fresh("t"))
        faults.inject("close", topic=topic.name)
        requests = [("a", PRODUCE, version, produce_body((one, 0, client_batch()))) for one in (topic, other)]
        both = ("a", FETCH, version, fetch_body((other, 0, 0), (topic, 0, 0), max_wait=0))
        assert self._errors(full, *requests, both) == ["closed", "answered", "closed"]

    def test_partition_of_a_topic(self, full: Serving, faults: FaultClient, fresh: Fresh) -> None:
        topic, other = full.create(fresh("t"), 2), full.create(fresh("t"), 2)
        group = new_group(full, fresh)
        faults.inject("close", topic=topic.name, partition=1)
        wanted = [(topic, 0), (topic, 1), (other, 1)]
        produced = [("a", PRODUCE, 13, produce_body((one, index, client_batch()))) for one, index in wanted]
        commits = [("a", OFFSET_COMMIT, COMMIT_VERSION, commit_body(group, one, 3, index)) for one, index in wanted]
        assert self._errors(full, *produced) == ["answered", "closed", "answered"]
        assert self._errors(full, *commits) == ["answered", "closed", "answered"]

    def test_partition_of_the_groups(self, full: Serving, faults: FaultClient, fresh: Fresh) -> None:
        group = new_group(full, fresh)
        partition = full.gateway.partition_of(group)
        other = next(name for name in map(str, range(99)) if full.gateway.partition_of(name) != partition)
        faults.inject("close", partition=partition)
        requests = [("a", FIND_COORDINATOR, 4, {"coordinator_keys": [name]}) for name in (group, other)]
        assert self._errors(full, *requests) == ["closed", "answered"]

    def test_gateway(self, full: Serving, faults: FaultClient) -> None:
        faults.inject("close", api="Metadata", gateway=full.gateway.id + 1)
        metadata = ("a", METADATA, 12, METADATA_BODY)
        assert self._errors(full, metadata) == ["answered"]
        faults.inject("close", api="Metadata", gateway=f"gateway-{full.gateway.id}")
        assert self._errors(full, metadata) == ["closed"]


class TestWhen:
    def _errors(self, full: Serving, group: str, count: int) -> list[int]:
        """Numbers of the requests, from 1, that got the error; two connections take turns."""
        body = {"key": group, "key_type": 0}
        with full.connect() as first, full.connect() as second:
            responses = [
                (second, first)[number % 2].exchange(FIND_COORDINATOR, 3, body).error_code
                for number in range(1, count + 1)
            ]
        return [number for number, error in enumerate(responses, 1) if error is ErrorCode.not_coordinator]

    @pytest.mark.parametrize(
        ("when", "expected"),
        [("always", [1, 2, 3, 4]), ("once", [1]), ({"nth": 3}, [3]), ({"probability": 1.0, "seed": 1}, [1, 2, 3, 4])],
    )
    def test_when(self, full: Serving, faults: FaultClient, fresh: Fresh, when: Any, expected: list[int]) -> None:
        group = new_group(full, fresh)
        faults.inject("error", api="FindCoordinator", group=group, error="NOT_COORDINATOR", when=when)
        assert self._errors(full, group, 4) == expected
        (listed,) = faults.faults()
        assert (listed["matched"], listed["hits"]) == (expected[-1], len(expected))

    def test_a_probability_replays(self, full: Serving, faults: FaultClient, fresh: Fresh) -> None:
        group = new_group(full, fresh)
        runs = []
        for seed in (7, 7, 8):
            when = {"probability": 0.5, "seed": seed}
            fault = faults.inject("error", api="FindCoordinator", group=group, error=16, when=when)
            runs.append(self._errors(full, group, 24))
            faults.clear(fault)
        assert runs[0] == runs[1] != runs[2]
        assert 4 < len(runs[0]) < 20

    def test_it_expires(self, full: Serving, faults: FaultClient, fresh: Fresh) -> None:
        group = new_group(full, fresh)
        faults.inject("error", api="FindCoordinator", group=group, error=16, expires_ms=3_000)
        assert self._errors(full, group, 1) == [1]
        while self._errors(full, group, 1):
            continue
        assert faults.faults() == []

    def test_the_first_injected_of_two_acts(self, full: Serving, faults: FaultClient, fresh: Fresh) -> None:
        group = new_group(full, fresh)
        first = faults.inject("error", api="FindCoordinator", group=group, error="NOT_COORDINATOR", when="once")
        second = faults.inject("error", api="FindCoordinator", group=group, error="GROUP_AUTHORIZATION_FAILED")
        body = {"key": group, "key_type": 0}
        assert [full.exchange(FIND_COORDINATOR, 3, body).error_code for _ in range(2)] == [
            ErrorCode.not_coordinator,
            ErrorCode.group_authorization_failed,
        ]
        assert [(one["id"], one["hits"]) for one in faults.faults()] == [(first, 1), (second, 1)]

    def test_what_nobody_counts_does_not_act(
        self, full: Serving, faults: FaultClient, fresh: Fresh, caplog: pytest.LogCaptureFixture
    ) -> None:
        """One that always acts needs no query, and is counted later."""
        group = new_group(full, fresh)
        once = faults.inject("error", api="FindCoordinator", group=group, error="NOT_COORDINATOR", when="once")
        faults.inject("error", api="ListGroups", error="NOT_COORDINATOR")
        full.controller.away = True
        assert self._errors(full, group, 1) == []
        assert f"fault {once} does not act" in caplog.text
        assert full.exchange(16, 4, {"states_filter": []}).error_code is ErrorCode.not_coordinator
        full.controller.away = False
        assert [one["hits"] for one in faults.faults()] == [0, 1]
        assert self._errors(full, group, 1) == [1]


def test_a_new_controller_is_queried_for_the_faults_in_force(full: Serving, faults: FaultClient, fresh: Fresh) -> None:
    """Its predecessor kept the fault, and died before it had informed this gateway."""
    group, local = new_group(full, fresh), full.controller.faults
    assert local is not None
    local.registry.add("f-kept", Fault("error", api="FindCoordinator", group=group, error="NOT_COORDINATOR"))
    body = {"key": group, "key_type": 0}
    assert full.exchange(FIND_COORDINATOR, 3, body).error_code is ErrorCode.none
    full.controller.epoch += 1
    full.follow(full.controller.view())
    while full.exchange(FIND_COORDINATOR, 3, body).error_code is not ErrorCode.not_coordinator:
        continue


def test_it_is_in_the_log_and_in_a_metric(
    full: Serving, faults: FaultClient, fresh: Fresh, caplog: pytest.LogCaptureFixture
) -> None:
    group = new_group(full, fresh)
    fault = faults.inject("error", api="FindCoordinator", group=group, error="NOT_COORDINATOR")
    with caplog.at_level(logging.WARNING), full.connect("name\nof mine") as client:
        client.exchange(FIND_COORDINATOR, 3, {"key": group, "key_type": 0})
    _, line = [record.getMessage() for record in caplog.records if fault in record.getMessage()]
    assert f"fault {fault}: error NOT_COORDINATOR (before) to FindCoordinator, correlation id 1" in line
    assert r"'name\nof mine'" in line
    _, text = full.http("/metrics")
    assert 'muster_faults_injected_total{gateway="1",action="error",api="FindCoordinator",actor=""}' in text


def test_without_faults_nothing_stands_between(full: Serving, faults: FaultClient, fresh: Fresh) -> None:
    """Without fault injection, the handler's own coroutine is awaited."""
    body = {"key": new_group(full, fresh), "key_type": 0}
    on, full.gateway.faults = full.gateway.faults, None
    try:
        assert full.exchange(FIND_COORDINATOR, 3, body).error_code is ErrorCode.none
        assert full.http("/v1/faults")[0] == 403
    finally:
        full.gateway.faults = on
