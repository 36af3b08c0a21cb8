"""Observes groups and topics from outside, as any Kafka client can."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from examples.demo.checks import Commit, Membership
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode

_HEARTBEAT, _HEARTBEAT_VERSION = 12, 3
_OFFSET_FETCH, _OFFSET_FETCH_VERSION = 9, 7
_DESCRIBE_GROUPS, _DESCRIBE_GROUPS_VERSION = 15, 5
_FIND_COORDINATOR, _FIND_COORDINATOR_VERSION = 10, 4
_TIMEOUT_S = 10.0
_SAMPLE_INTERVAL_S = 0.5
_RETRY_S = 0.2
_HIGHEST_GENERATION = 50


class Observer:
    """A client with its own client id, so that it is not mistaken for a consumer.

    While actors are killed it sends its requests itself: librdkafka's admin client ends the process if a connection is
    lost while it looks for a group (librdkafka 5397).
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap.split(",")
        self._topic = topic
        quiet = logging.getLogger("demo.librdkafka")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": "muster-demo"}, logger=quiet)

    def create_topic(self, partitions: int) -> None:
        """Create the topic. Raises KafkaException."""
        created = self._admin.create_topics([NewTopic(self._topic, partitions)], request_timeout=_TIMEOUT_S)
        created[self._topic].result(_TIMEOUT_S)

    def ends(self, partitions: int) -> dict[int, int]:
        """End offset by partition. KafkaException or TimeoutError."""
        wanted = {TopicPartition(self._topic, index): OffsetSpec.latest() for index in range(partitions)}  # type: ignore[no-untyped-call]
        found = self._admin.list_offsets(wanted, request_timeout=_TIMEOUT_S)
        return {each.partition: future.result(_TIMEOUT_S).offset for each, future in found.items()}

    def committed(self, group: str) -> dict[int, int]:
        """Return the committed offsets by partition, where there are any. Raises OSError."""
        body = {"group_id": group, "topics": None, "require_stable": False}
        response = self._response(_OFFSET_FETCH, _OFFSET_FETCH_VERSION, body)
        _refuse(response.error_code)
        return {
            int(each.partition_index): int(each.committed_offset)
            for topic in response.topics
            for each in topic.partitions
            if topic.name == self._topic and each.committed_offset >= 0
        }

    def coordinator(self, group: str) -> int:
        """Return the broker id of the gateway that serves the group's members. Raises OSError."""
        body = {"key_type": 0, "coordinator_keys": [group]}
        (found,) = self._response(_FIND_COORDINATOR, _FIND_COORDINATOR_VERSION, body).coordinators
        _refuse(found.error_code)
        return int(found.node_id)

    def membership(self, group: str, *, guess: int | None = None, timeout_s: float = 30.0) -> Membership:
        """Return member ids and generation, once the group answers; the generation is None if it never does.

        No Kafka API reports a group's generation to others. But a coordinator accepts a member's Heartbeat in that one
        generation only: any other gets ILLEGAL_GENERATION and changes nothing. ``guess`` is tried first.
        """
        deadline = time.monotonic() + timeout_s
        members: tuple[str, ...] = ()
        while time.monotonic() < deadline:
            try:
                members = self._members(group)
                guesses = ([guess] if guess is not None else []) + list(range(_HIGHEST_GENERATION))
                for generation in guesses if members else []:
                    if self._accepted(group, members[0], generation):
                        return Membership(generation=generation, members=members)
            except OSError:
                pass  # the coordinator is unavailable or loading
            time.sleep(_RETRY_S)
        return Membership(generation=None, members=members)

    def _members(self, group: str) -> tuple[str, ...]:
        body = {"groups": [group], "include_authorized_operations": False}
        (found,) = self._response(_DESCRIBE_GROUPS, _DESCRIBE_GROUPS_VERSION, body).groups
        _refuse(found.error_code)
        return tuple(sorted(str(member.member_id) for member in found.members))

    def _accepted(self, group: str, member: str, generation: int) -> bool:
        """Return whether the generation is the group's. Raises OSError if the coordinator cannot answer."""
        body = {"group_id": group, "generation_id": generation, "member_id": member, "group_instance_id": None}
        response = self._response(_HEARTBEAT, _HEARTBEAT_VERSION, body)
        if response.error_code in {ErrorCode.none, ErrorCode.rebalance_in_progress}:
            return True
        if response.error_code == ErrorCode.illegal_generation:
            return False
        raise NotNow(response.error_code.name)

    def _response(self, api_key: int, version: int, body: dict[str, Any]) -> Any:
        request = codec.encode_request(api_key, version, 1, "muster-demo", body)
        _, response = codec.decode_response(api_key, version, self._request(request))
        return response

    def _request(self, request: bytes) -> bytes:
        """Send one request to the first gateway that answers. OSError if none does."""
        failure: OSError = ConnectionError("no gateway")
        for address in self._bootstrap:
            host, _, port = address.rpartition(":")
            try:
                with socket.create_connection((host, int(port)), timeout=_TIMEOUT_S) as connection:
                    connection.sendall(len(request).to_bytes(4, "big") + request)
                    with connection.makefile("rb") as response:
                        size = int.from_bytes(response.read(4), "big")
                        frame = response.read(size)
                        if size and len(frame) == size:
                            return frame
            except OSError as error:
                failure = error
        raise failure


class NotNow(OSError):
    """The coordinator is unavailable or loading."""


def _refuse(error: ErrorCode) -> None:
    """Raise NotNow if this is one."""
    if error != ErrorCode.none:
        raise NotNow(error.name)


class CommitWatch:
    """Reads the groups' committed offsets continuously, in its own thread."""

    def __init__(self, observer: Observer, groups: Sequence[str], now_s: Callable[[], float]) -> None:
        self._observer = observer
        self._groups = groups
        self._now_s = now_s
        self._stop = threading.Event()
        self._commits: list[Commit] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> CommitWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(2 * _TIMEOUT_S)

    def seen(self) -> list[Commit]:
        """Return the commits in the order of the reads. Each read was requested after the response to the previous
        one."""
        return list(self._commits)

    def last(self) -> dict[tuple[str, int], int]:
        """Return the last committed offset read, by group and partition."""
        return {(commit.group, commit.partition): commit.offset for commit in self.seen()}

    def read_once(self) -> None:
        """Read all groups now; skip those whose coordinator is unavailable."""
        for group in self._groups:
            try:
                committed = self._observer.committed(group)
            except OSError:
                continue
            at_s = self._now_s()
            self._commits += [
                Commit(at_s=at_s, group=group, partition=partition, offset=offset)
                for partition, offset in sorted(committed.items())
            ]

    def _run(self) -> None:
        while not self._stop.wait(_SAMPLE_INTERVAL_S):
            self.read_once()
