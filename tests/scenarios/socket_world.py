"""A server on a socket, in real time: a gateway of Muster, or a real Apache Kafka."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.hashing import partition_for
from muster.placement.view import TRANSACTIONS_TOPIC
from tests.scenarios.play import LAST_EPOCH, TOPICS, ReceivedResponse
from tests.scenarios.requests import newest
from tests.scenarios.values import ScenarioError

REQUEST_TIMEOUT_S = 30.0
AT_ONCE_S = 0.2
"""A request without a response after this time is parked."""
LIST_GROUPS, CONSUMER_GROUP_HEARTBEAT = 16, 68
GROUPS_ON_ALL_PARTITIONS = 12
"""So many warm-up groups are on all offsets partitions of a broker for tests."""
METADATA, CREATE_TOPICS, DELETE_TOPICS, FIND_COORDINATOR, HEARTBEAT = 3, 19, 20, 10, 12
INIT_PRODUCER_ID, DESCRIBE_TRANSACTIONS = 22, 65
_NOT_READY = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)
_READY_S = 60.0
_EXHAUSTED_S = 120.0
_AT_ONCE = 100


class _Frame(NamedTuple):
    at_s: float
    data: bytes


class Connection:
    """Sends frames; a thread receives, so that the arrival time of a response is known, even if it is read later."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=REQUEST_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(None)
        self.frames: queue.Queue[_Frame] = queue.Queue()
        self.is_busy = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, frame: bytes) -> float:
        """Send, and return the time of ``time.monotonic``."""
        self.is_busy = True
        at_s = time.monotonic()
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
        return at_s

    def _read(self) -> None:
        stream = self._socket.makefile("rb")
        try:
            while size := stream.read(4):
                data = stream.read(int.from_bytes(size, "big"))
                self.frames.put(_Frame(time.monotonic(), data))
        except (OSError, ValueError):
            pass
        self.frames.put(_Frame(time.monotonic(), b""))

    def close(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return
        finally:
            self._socket.close()
        self._reader.join()


@dataclass(slots=True)
class Sent:
    """A request in flight; ``frame`` after the response."""

    connection: Connection
    api_key: int
    version: int
    at_s: float
    frame: _Frame | None = None

    def receive(self, wait_s: float) -> bool:
        """Whether the response arrives within that time. If the server closes the connection, it is an empty frame."""
        if self.frame is not None:
            return True
        try:
            frame = self.connection.frames.get(timeout=wait_s)
        except queue.Empty:
            return False
        self.frame = frame
        self.connection.is_busy = not frame.data
        return True

    def entity(self) -> Any:
        """None if the server has closed the connection, which is then not used again."""
        assert self.frame is not None
        if not self.frame.data:
            return None
        return codec.decode_response(self.api_key, self.version, self.frame.data)[1]


@dataclass(slots=True)
class SocketWorld:
    """The clients of one scenario. While a client's request is parked, its next one uses another connection: a broker
    processes one request of a connection at a time."""

    port: int
    early_ms: int = 50
    late_ms: int = 1_500
    _connections: dict[str, list[Connection]] = field(default_factory=dict)
    _topic_ids: dict[str, UUID] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for connections in self._connections.values():
            for connection in connections:
                connection.close()

    def newest(self, api_key: int) -> int:
        return newest(api_key)

    def send(self, client: str, api_key: int, version: int, body: codec.Body) -> Sent:
        connections = self._connections.setdefault(client, [])
        connection = next((each for each in connections if not each.is_busy), None)
        if connection is None:
            connection = Connection(self.port)
            connections.append(connection)
        frame = codec.encode_request(api_key, version, 1, client, body)
        return Sent(connection, api_key, version, connection.send(frame))

    def response(self, handle: Sent) -> ReceivedResponse:
        if not handle.receive(REQUEST_TIMEOUT_S):
            raise ScenarioError(f"no answer within {REQUEST_TIMEOUT_S} s")
        assert handle.frame is not None
        return ReceivedResponse(handle.entity(), round((handle.frame.at_s - handle.at_s) * 1000))

    def is_parked(self, handle: Sent) -> bool:
        """On a busy machine, it may not have reached its coordinator yet: the next request might overtake it there.

        ListGroups asks every coordinator, which responds to it after what it was sent before.
        """
        if handle.receive(AT_ONCE_S):
            return False
        self._admin(LIST_GROUPS, {"states_filter": [], "types_filter": []})
        return not handle.receive(0)

    def sleep(self, ms: int) -> None:
        time.sleep(ms / 1000)

    def disconnect(self, client: str) -> None:
        for connection in self._connections.pop(client, []):
            connection.close()

    def topic_id(self, name: str) -> UUID:
        if name not in self._topic_ids:
            self._topic_ids |= {topic.name: topic.topic_id for topic in self._metadata() if topic.name}
        return self._topic_ids.get(name, uuid5(NAMESPACE_URL, name))

    def partitions(self, topic: str) -> int:
        return len(next(each.partitions for each in self._metadata() if each.name == topic))

    def command(self, name: str, args: tuple[str, ...]) -> str | None:
        match name, args:
            case "topic", (topic,):
                self.create({topic: 1})
            case "topic", (topic, partitions):
                self.create({topic: int(partitions)})
            case "transactional", (transactional_id,):
                what = f"a coordinator of {transactional_id}"
                self._until(lambda: self._coordinates(transactional_id) not in _NOT_READY, what)
            case "exhaust", (transactional_id, *timeout_ms):
                self._exhaust(transactional_id, int(timeout_ms[0]) if timeout_ms else 60_000)
            case "delete", topics:
                self.delete(topics)
            case _:
                raise ScenarioError(f"{name} {' '.join(args)} can be played in a bare core only")
        return None

    def _exhaust(self, transactional_id: str, timeout_ms: int) -> None:
        """Request one epoch after the other, up to the last one: many requests are under way at once."""
        body = {"transactional_id": transactional_id, "transaction_timeout": timeout_ms}
        frame = codec.encode_request(INIT_PRODUCER_ID, 4, 1, "admin", body)
        connection, epoch = Connection(self.port), -1
        deadline_s = time.monotonic() + _EXHAUSTED_S
        while epoch < LAST_EPOCH:
            if time.monotonic() > deadline_s:
                raise ScenarioError(f"{transactional_id} has reached epoch {epoch} only")
            count = min(LAST_EPOCH - epoch, _AT_ONCE)
            for _ in range(count):
                connection.send(frame)
            for _ in range(count):
                response = connection.frames.get(timeout=REQUEST_TIMEOUT_S).data
                epoch = max(epoch, codec.decode_response(INIT_PRODUCER_ID, 4, response)[1].producer_epoch)
        connection.close()

    def create(self, topics: Mapping[str, int]) -> None:
        """Create topics and wait until they are known everywhere that matters."""
        wanted = [
            {
                "name": name,
                "num_partitions": count,
                "replication_factor": 1,
                "assignments": [],
                "configs": [],
            }
            for name, count in topics.items()
        ]
        response = self._admin(CREATE_TOPICS, {"topics": wanted, "timeout": 20_000, "validate_only": False})
        failed = {topic.name: topic.error_code.name for topic in response.topics if topic.error_code}
        if failed:
            raise ScenarioError(f"topics cannot be created: {failed}")
        self._until(lambda: topics.keys() <= self._known(), f"{', '.join(topics)} to appear")

    def delete(self, topics: tuple[str, ...]) -> None:
        """Delete topics and wait until no response lists them."""
        names = [{"name": name, "topic_id": None} for name in topics]
        response = self._admin(DELETE_TOPICS, {"topics": names, "topic_names": list(topics), "timeout": 20_000})
        failed = {topic.name: topic.error_code.name for topic in response.responses if topic.error_code}
        if failed:
            raise ScenarioError(f"topics cannot be deleted: {failed}")
        self._until(lambda: not self._known() & set(topics), f"{', '.join(topics)} to go")

    def _known(self) -> set[str]:
        return {
            topic.name
            for topic in self._metadata()
            if topic.error_code is ErrorCode.none and all(each.leader_id >= 0 for each in topic.partitions)
        }

    def _metadata(self) -> Any:
        body = {
            "topics": None,
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        }
        return self._admin(METADATA, body).topics

    def _admin(self, api_key: int, body: codec.Body, version: int | None = None) -> Any:
        sent = self.send("admin", api_key, self.newest(api_key) if version is None else version, body)
        entity = self.response(sent).entity
        if entity is None:
            raise ScenarioError("the server closed the connection")
        return entity

    def _until(self, done: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + _READY_S
        while not done():
            if time.monotonic() > deadline_s:
                raise ScenarioError(f"waited {_READY_S} s for {what}")
            time.sleep(0.05)

    def prepare(self) -> None:
        """Create the topics of every scenario, and wait for a coordinator on every offsets partition."""
        groups = [f"warm-up-{number}" for number in range(40)]
        self._until(lambda: self._coordinators(groups) == {ErrorCode.none}, "coordinators")
        self._until(lambda: {self._heartbeat(group) for group in groups} == {ErrorCode.unknown_member_id}, "groups")
        missing = {name: count for name, count in TOPICS.items() if name not in self._known()}
        if missing:
            self.create(missing)
        groups = groups[:GROUPS_ON_ALL_PARTITIONS]
        self._until(lambda: all(map(self._assigns_topics, groups)), "coordinators to know the topics")

    def _assigns_topics(self, group: str) -> bool:
        """Whether the group's coordinator knows the topics of every scenario. True without consumer groups."""
        body = {
            "group_id": group,
            "member_id": "warm-up",
            "member_epoch": 0,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout": 60_000,
            "subscribed_topic_names": [*TOPICS],
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": [],
        }
        response = self._admin(CONSUMER_GROUP_HEARTBEAT, body)
        if response.error_code is ErrorCode.unsupported_version:
            return True
        unchanged = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None}
        self._admin(CONSUMER_GROUP_HEARTBEAT, {**body, **unchanged, "member_epoch": -1})
        if response.assignment is None:
            return False
        found = sum(len(topic.partitions) for topic in response.assignment.topic_partitions)
        return found == sum(TOPICS.values())

    def _coordinators(self, groups: list[str]) -> set[ErrorCode]:
        response = self._admin(FIND_COORDINATOR, {"key_type": 0, "coordinator_keys": groups})
        return {each.error_code for each in response.coordinators}

    def _coordinates(self, transactional_id: str) -> ErrorCode:
        """NONE if that transactional id has a coordinator, and the server has producer ids.

        In Muster, gateways and coordinators each have their own: the latter's are seen at another transactional id.
        """
        found = self._admin(FIND_COORDINATOR, {"key_type": 1, "coordinator_keys": [transactional_id]}).coordinators
        error: ErrorCode = found[0].error_code
        if error is ErrorCode.none:
            response = self._admin(DESCRIBE_TRANSACTIONS, {"transactional_ids": [transactional_id]})
            error = response.transaction_states[0].error_code
        for producer in (None, self._neighbour(transactional_id)) if error not in _NOT_READY else ():
            body = {"transactional_id": producer, "transaction_timeout": 60_000}
            error = self._admin(INIT_PRODUCER_ID, body, version=4).error_code
            if error in _NOT_READY:
                break
        return error

    def _neighbour(self, transactional_id: str) -> str:
        """Return an unused transactional id with the same coordinator."""
        count = self.partitions(TRANSACTIONS_TOPIC)
        wanted = partition_for(transactional_id, count)
        while partition_for(name := f"warm-up-{uuid4()}", count) != wanted:
            pass
        return name

    def _heartbeat(self, group: str) -> ErrorCode:
        body = {"group_id": group, "generation_id": 1, "member_id": "nobody"}
        response = self._admin(HEARTBEAT, body)
        error: ErrorCode = response.error_code
        return error
