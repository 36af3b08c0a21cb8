"""A bare coordinator core in virtual time: exact, fast, and with a log that can be held, broken and read."""

from __future__ import annotations

import itertools
from uuid import NAMESPACE_URL, UUID, uuid5

from kio.schema.errors import ErrorCode

from muster.actors.config import MusterConfig, group_config
from muster.actors.group.codec import adapters
from muster.actors.group.consumer.topics import TopicInfo
from muster.actors.group.coordinator import Coordinator
from muster.actors.group.types import GroupId, Token
from muster.actors.wire.kafka import codec
from tests.group.driver import Driver
from tests.group.named_topics import with_names
from tests.scenarios.language import Scenario
from tests.scenarios.log_text import describe
from tests.scenarios.play import TOPICS, ReceivedResponse
from tests.scenarios.values import ScenarioError

BROKER = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
"""Properties of every scenario's broker, in every world."""
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10


class _Driver(Driver):
    """Generates member ids as in production: a name and a UUID."""

    def _new_core(self) -> Coordinator:
        self.epoch += 1
        numbers = self.__dict__.setdefault("_uuids", itertools.count(1))
        return Coordinator(
            partition=7, epoch=self.epoch, config=self.config, new_id=lambda: str(UUID(int=next(numbers)))
        )


class CoreWorld:
    """Requests go through kio and the adapters, as in the actor."""

    early_ms = late_ms = 0

    def __init__(self, scenario: Scenario) -> None:
        properties = {**BROKER, **scenario.broker}
        self.driver = _Driver(group_config(MusterConfig.from_properties(properties)))
        self._topics = dict(TOPICS)
        self._publish_topics()
        self._sent: dict[Token, tuple[int, int, int]] = {}
        self._answered_ms: dict[Token, int] = {}
        self._shown = 0
        self._scope = scenario.name
        self._began_ms = self.driver.now_ms

    def newest(self, api_key: int) -> int:
        """Versions that name topics by id need a gateway's view."""
        newest = codec.versions_of(api_key)[-1]
        return min(newest, 9) if api_key in (OFFSET_COMMIT, OFFSET_FETCH) else newest

    def send(self, client: str, api_key: int, version: int, body: codec.Body) -> Token:
        if api_key == FIND_COORDINATOR:
            raise ScenarioError("a core has no FindCoordinator")
        frame = codec.encode_request(api_key, version, 1, client, body)
        header = codec.decode_header(frame)
        names = {self.topic_id(name): name for name in (*self._topics, "v")}
        token = self.driver.send(with_names(adapters.read(header, frame), names), client=client, host="127.0.0.1")
        self._sent[token] = (api_key, version, self.driver.now_ms)
        self._note()
        return token

    def _note(self) -> None:
        for token in self.driver.responses.keys() - self._answered_ms.keys():
            self._answered_ms[token] = self.driver.now_ms

    def response(self, handle: Token) -> ReceivedResponse:
        while handle not in self.driver.responses:
            due_ms = self.driver.core.next_deadline_ms()
            if due_ms is None:
                raise ScenarioError("nothing will ever answer it")
            self.driver.advance(max(0, due_ms - self.driver.now_ms))
            self._note()
        api_key, version, sent_ms = self._sent[handle]
        response = self.driver.responses[handle]
        frame = codec.encode_response(api_key, version, 1, adapters.encode(version, response))
        return ReceivedResponse(codec.decode_response(api_key, version, frame)[1], self._answered_ms[handle] - sent_ms)

    def is_parked(self, handle: Token) -> bool:
        return handle not in self.driver.responses

    def sleep(self, ms: int) -> None:
        end_ms = self.driver.now_ms + ms
        while (due_ms := self.driver.core.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.driver.advance(max(0, due_ms - self.driver.now_ms))
            self._note()
        self.driver.advance(end_ms - self.driver.now_ms)

    def disconnect(self, client: str) -> None:
        """Do nothing: a core gets no notice of it."""

    def topic_id(self, name: str) -> UUID:
        return uuid5(NAMESPACE_URL, name)

    def partitions(self, topic: str) -> int:
        """Return 1: a core is one partition."""
        return 1

    def command(self, name: str, args: tuple[str, ...]) -> str | None:
        try:
            return self._command(name, args)
        finally:
            self._note()

    def _command(self, name: str, args: tuple[str, ...]) -> str | None:
        match name, args:
            case "topic", (topic, *partitions):
                self._topics[topic] = int(partitions[0]) if partitions else 1
                self._publish_topics()
            case "delete", topics:
                self._topics = {name: count for name, count in self._topics.items() if name not in topics}
                self._publish_topics()
                self.driver.topics_deleted(*topics)
            case "log", ():
                return self._log()
            case "core", ("hold",):
                self.driver.auto = False
            case "core", ("write",):
                self.driver.write_all()
            case "core", ("release",):
                self.driver.write_all()
                self.driver.auto = True
            case "core", ("fail", error):
                self.driver.fail(ErrorCode[error.lower()])
                self.driver.auto = True
            case "core", ("restart", *properties):
                self._restart(properties)
            case "core", ("resign",):
                self.driver.resign()
            case "core", ("loading",):
                self.driver.core = self.driver._new_core()
                self.driver.topics_known(self.driver.topics)
            case "core", ("state", group):
                return self._state(group)
            case _:
                raise ScenarioError(f"a core does not know {name} {' '.join(args)}")
        return None

    def _publish_topics(self) -> None:
        """Let the core know all topics, as after a change of the cluster view."""
        known = {name: TopicInfo(self.topic_id(name), count) for name, count in self._topics.items()}
        self.driver.topics_known(known)

    def _restart(self, properties: list[str]) -> None:
        if properties:
            changed = dict(item.split("=", 1) for item in properties)
            self.driver.config = group_config(MusterConfig.from_properties({**BROKER, **changed}))
        self.driver.restart()

    def _log(self) -> str:
        """Return the records since the last ``log``."""
        fresh = self.driver.log[self._shown :]
        self._shown = len(self.driver.log)
        return "\n".join(describe(record, self._began_ms) for record in fresh) or "nothing"

    def _state(self, name: str) -> str:
        consumers = self.driver.core.consumer_groups.get(GroupId(f"{self._scope}.{name}"))
        if consumers is not None:
            return f"{consumers.state().value} epoch={consumers.epoch} members={len(consumers.members)}"
        group = self.driver.core.groups.get(GroupId(f"{self._scope}.{name}"))
        if group is None:
            return "no such group"
        waiting = len(group.pending_joins)
        said = f"{group.state.value} generation={group.generation} members={len(group.members)}"
        return f"{said} pending={waiting}" if waiting else said
