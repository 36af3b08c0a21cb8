"""Plays a scenario in a world and records the results."""

from __future__ import annotations

import copy
import re
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from muster.actors.wire.kafka.codec import Body
from muster.placement.hashing import partition_for
from muster.placement.view import OFFSETS_TOPIC
from tests.scenarios.language import Command, Request, Scenario, Step
from tests.scenarios.rendering import render
from tests.scenarios.requests import API_KEYS, body
from tests.scenarios.values import Ref, ScenarioError

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_MADE_ID = re.compile(rf"(?P<name>.*)-{_UUID}$", re.DOTALL)
_BARE_ID = re.compile(rf"(?:{_UUID}|[\w-]{{21}}[AQgw])$")
"""Id that Kafka makes for members of consumer groups: a UUID, in base64 with ConsumerGroupHeartbeat v0."""
_MADE_ID_IN_TEXT = re.compile(rf"[\w.]+-{_UUID}")
CLOSED, NO_RESPONSE = "connection closed", "no answer"
_AFTER = re.compile(r"after (\d+) ")
_A_WHILE = "after a while"
"""Time of a response that waits for the start of a process, which takes as long as it takes."""


TOPICS = {"t": 3, "u": 3, "four": 4}
"""Topics that every scenario may use, and their partitions."""


LAST_EPOCH = 32_766
"""The last one of a producer id that a client gets."""


class Ticket(NamedTuple):
    """A request that has been sent."""

    request: Request
    version: int
    handle: Any


class ReceivedResponse(NamedTuple):
    entity: Any
    """None: the server closed the connection instead."""
    after_ms: int
    """Time since the request was sent."""


class World(Protocol):
    """A coordinator to play with. Times are its own: virtual or real."""

    early_ms: int
    """How much earlier than in the file a response may arrive."""
    late_ms: int
    """How much later."""

    def send(self, client: str, api_key: int, version: int, body: Body) -> Any:
        """Send a request; returns a handle."""

    def response(self, handle: Any) -> ReceivedResponse:
        """Wait for the response. Raises ScenarioError if it never arrives."""

    def is_parked(self, handle: Any) -> bool:
        """Whether there is no response, and none arrives at once."""

    def sleep(self, ms: int) -> None: ...

    def disconnect(self, client: str) -> None:
        """Close the client's connections; its later requests use new ones."""

    def topic_id(self, name: str) -> UUID:
        """Return the topic's id; for a topic that does not exist, some id."""

    def command(self, name: str, args: tuple[str, ...]) -> str | None:
        """``topic``, ``delete`` and commands of single worlds; returns their output, if any."""

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic."""

    def newest(self, api_key: int) -> int:
        """Return the newest version of the API, for requests of scenarios that name none."""


class Namebook:
    """Names for what the server generates, and a group namespace for each time that a scenario is played."""

    def __init__(self, scenario: Scenario, world: World, time_played: int) -> None:
        self._prefix = f"{scenario.name}." if time_played == 1 else f"{scenario.name}.{time_played}."
        self._world = world
        self._ids: dict[Ref, str] = {}
        self._refs: dict[str, Ref] = {}
        self._topics: dict[UUID, str] = {}
        self._producer_ids: list[int] = []
        for name in TOPICS:
            self.topic_id(name)

    def member(self, ref: Ref) -> str:
        if ref not in self._ids:
            raise ScenarioError(f"no answer named {ref} yet")
        return self._ids[ref]

    def of_member(self, member_id: str) -> str:
        """Return the id's name. Other text is unchanged, except for the namespace of groups in an error message."""
        match = _MADE_ID.match(member_id)
        if match is None and not _BARE_ID.match(member_id):
            return member_id.replace(self._prefix, "")
        if member_id not in self._refs:
            name = "made" if match is None else match["name"]
            number = 1 + sum(ref.name == name for ref in self._ids)
            ref = Ref(name, number)
            self._ids[ref], self._refs[member_id] = member_id, ref
        return str(self._refs[member_id])

    def in_text(self, text: str) -> str:
        """Return the text, with names for everything generated in it."""
        named = _MADE_ID_IN_TEXT.sub(lambda match: self.of_member(match[0]), text)
        return named.replace(f" {self._prefix}", " ")

    def group(self, name: str | None) -> str | None:
        return f"{self._prefix}{name}" if name else name

    def of_group(self, name: str) -> str | None:
        if not name:
            return name
        return name.removeprefix(self._prefix) if name.startswith(self._prefix) else None

    def topic_id(self, name: str) -> UUID:
        found = self._world.topic_id(name)
        self._topics[found] = name
        return found

    def producer_id(self, number: int) -> int:
        if number > len(self._producer_ids):
            raise ScenarioError(f"no answer had producer id {number} yet")
        return self._producer_ids[number - 1]

    def of_producer_id(self, producer_id: int) -> str:
        if producer_id not in self._producer_ids:
            self._producer_ids.append(producer_id)
        return f"pid({self._producer_ids.index(producer_id) + 1})"

    def offsets_partition(self, group: str) -> int:
        """Return the partition of ``__consumer_offsets`` that has the group."""
        return partition_for(f"{self._prefix}{group}", self._world.partitions(OFFSETS_TOPIC))

    def of_topic_id(self, topic_id: UUID) -> str:
        return self._topics.get(topic_id, str(topic_id))


def play(scenario: Scenario, world: World, *, as_kafka: bool = False, time_played: int = 1) -> Scenario:
    """Return the scenario with this world's responses.

    ``as_kafka`` says which of the two responses this world's is, where the file has both; the other one is unchanged.
    ``time_played`` counts repetitions on one server, which still has the groups of the previous ones.
    """
    return _Player(scenario, world, as_kafka, time_played).play()


class _Player:
    def __init__(self, scenario: Scenario, world: World, as_kafka: bool, time_played: int) -> None:
        self._scenario = copy.deepcopy(scenario)
        self._world = world
        self._names = Namebook(scenario, world, time_played)
        self._as_kafka = as_kafka
        self._waiting: dict[str, list[Ticket]] = {}

    def play(self) -> Scenario:
        for step in self._scenario.steps:
            if step.action is None:
                continue
            try:
                self._write_down(step, self._act(step.action, step))
            except ScenarioError as error:
                raise ScenarioError(f"{self._scenario.name}: {step.text}: {error}") from error
        left = [f"{name} ({len(tickets)})" for name, tickets in self._waiting.items() if tickets]
        if left:
            raise ScenarioError(f"{self._scenario.name}: answers that no step awaits: {', '.join(left)}")
        return self._scenario

    def _write_down(self, step: Step, said: str | None) -> None:
        if step.musters is not None and not self._as_kafka:
            step.musters = said
        else:
            step.response = said

    def _act(self, action: Request | Command, step: Step) -> str | None:
        if isinstance(action, Request):
            return self._exchange(action, step)
        match action.name, action.args:
            case "sleep", (ms,):
                self._world.sleep(int(ms))
            case "await", (client,):
                return self._response(self._oldest(client), step)
            case "await", (client, ms):
                return self._response_within(int(ms), self._oldest(client), step)
            case "parked", clients:
                for client in clients:
                    self._check_parked(client)
            case "transactional" | "exhaust", (name, *rest):
                self._world.command(action.name, (self._names.group(name) or "", *rest))
            case "disconnect", (client,):
                self._waiting.pop(client, None)
                self._world.disconnect(client)
            case name, args:
                output = self._world.command(name, args)
                if name == "topic":
                    self._names.topic_id(args[0])
                return None if output is None else self._names.in_text(output)
        return None

    def _exchange(self, request: Request, step: Step) -> str | None:
        api_key = API_KEYS.get(request.api)
        if api_key is None:
            raise ScenarioError(f"no scenario speaks {request.api}")
        version = self._world.newest(api_key) if request.version is None else request.version
        handle = self._world.send(request.client, api_key, version, body(request, version, self._names))
        ticket = Ticket(request, version, handle)
        if request.background:
            self._waiting.setdefault(request.client, []).append(ticket)
            return None
        return self._response(ticket, step)

    def _oldest(self, client: str) -> Ticket:
        if not self._waiting.get(client):
            raise ScenarioError(f"{client} waits for nothing")
        return self._waiting[client].pop(0)

    def _check_parked(self, client: str) -> None:
        tickets = self._waiting.get(client, [])
        if not tickets:
            raise ScenarioError(f"{client} waits for nothing")
        for ticket in tickets:
            if not self._world.is_parked(ticket.handle):
                said = self._response(ticket, Step("", None))
                raise ScenarioError(f"{client} is not parked, it is answered {said}")

    def _response_within(self, ms: int, ticket: Ticket, step: Step) -> str:
        self._world.sleep(ms)
        return NO_RESPONSE if self._world.is_parked(ticket.handle) else self._response(ticket, step)

    def _response(self, ticket: Ticket, step: Step) -> str:
        entity, after_ms = self._world.response(ticket.handle)
        if entity is None:
            return CLOSED
        everything = ticket.request.api == "OffsetFetch" and ticket.request.fields.get("topics") is None
        text = render(entity, self._names, sort_topics=everything)
        recorded = step.musters if step.musters is not None and not self._as_kafka else step.response
        if recorded is not None and recorded.startswith(_A_WHILE):
            return f"{_A_WHILE} {text}"
        said = self._nominal(after_ms, recorded)
        return f"after {said} {text}" if said else text

    def _nominal(self, after_ms: int, recorded: str | None) -> int:
        """How long the response took; the file's figure, if the two agree to this world's precision."""
        match = _AFTER.match(recorded or "")
        nominal = int(match[1]) if match else 0
        if recorded is None:
            nominal = max(after_ms, 0) // 500 * 500
        agrees = nominal - self._world.early_ms <= after_ms <= nominal + self._world.late_ms
        return nominal if agrees else after_ms
