"""A bare transaction coordinator in virtual time, with partitions that take their markers at once."""

from __future__ import annotations

from uuid import NAMESPACE_URL, UUID, uuid5

from kio.schema.errors import ErrorCode

from muster.actors.group.types import Token
from muster.actors.transactions.apis.partitions import refused
from muster.actors.transactions.codec import adapters
from muster.actors.transactions.config import TransactionConfig
from muster.actors.transactions.messages import AddPartitionsToTxn, Response
from muster.actors.transactions.types import TOPIC_DELETED
from muster.actors.wire import codec
from tests.scenarios.language import Scenario
from tests.scenarios.play import TOPICS, ReceivedResponse
from tests.scenarios.requests import newest, readable
from tests.scenarios.values import ScenarioError
from tests.transactions.driver import Driver

_OFFSETS_PARTITIONS = 4
_INTERNAL = ("__consumer_offsets", "__transaction_state")


class _Driver(Driver):
    """Markers of topics that were deleted are done, as the actor reports it."""

    def __init__(self, config: TransactionConfig, topics: dict[str, int]) -> None:
        self.topics = topics
        super().__init__(config)

    def mark(self, results: object = None) -> None:
        known = {*self.topics, *_INTERNAL}
        gone = {each for request in self.unmarked for each in request.partitions if each[0] not in known}
        super().mark(dict.fromkeys(gone, TOPIC_DELETED))


class TransactionWorld:
    """Requests go through kio and the adapters, as in the actor, and partitions are checked as in a gateway."""

    early_ms = late_ms = 0

    def __init__(self, scenario: Scenario) -> None:
        fields = {name.replace(".", "_"): int(value) for name, value in scenario.broker.items()}
        self.topics = dict(TOPICS)
        config = TransactionConfig(**fields, offsets_topic_num_partitions=_OFFSETS_PARTITIONS)
        self.driver = _Driver(config, self.topics)
        self._sent: dict[Token, tuple[int, int]] = {}
        self._refused: dict[Token, Response] = {}

    def newest(self, api_key: int) -> int:
        return newest(api_key)

    def send(self, client: str, api_key: int, version: int, body: codec.Body) -> Token:
        frame = codec.encode_request(api_key, version, 1, client, body)
        header = codec.decode_header(frame)
        codec.check_request(header, frame)
        if api_key not in adapters.TRANSACTION_APIS:
            raise ScenarioError("only transactions are served here")
        request = adapters.read(header, frame)
        error = refused(request, self._error_of) if isinstance(request, AddPartitionsToTxn) else None
        if error is not None:
            token = Token(-len(self._sent) - 1)
            self._refused[token] = error
        else:
            token = self.driver.send(request)
        self._sent[token] = (api_key, version)
        return token

    def _error_of(self, topic: str, partition: int) -> ErrorCode:
        if topic in _INTERNAL:
            return ErrorCode.topic_authorization_failed
        known = 0 <= partition < self.topics.get(topic, 0)
        return ErrorCode.none if known else ErrorCode.unknown_topic_or_partition

    def response(self, handle: Token) -> ReceivedResponse:
        response = self._refused.get(handle) or self.driver.responses.get(handle)
        if response is None:
            raise ScenarioError("nothing will ever answer it")
        api_key, version = self._sent[handle]
        frame = codec.encode_response(api_key, version, 1, adapters.encode(version, response))
        return ReceivedResponse(codec.decode_response(api_key, version, readable(api_key, frame))[1], 0)

    def is_parked(self, handle: Token) -> bool:
        return handle not in self.driver.responses and handle not in self._refused

    def sleep(self, ms: int) -> None:
        self.driver.advance(ms)

    def disconnect(self, client: str) -> None:
        """A core gets no notice of it."""

    def topic_id(self, name: str) -> UUID:
        return uuid5(NAMESPACE_URL, name)

    def partitions(self, topic: str) -> int:
        return _OFFSETS_PARTITIONS if topic in _INTERNAL else self.topics[topic]

    def command(self, name: str, args: tuple[str, ...]) -> str | None:
        match name, args:
            case "topic", (topic, *partitions):
                self.topics[topic] = int(partitions[0]) if partitions else 1
            case "transactional", _:
                pass
            case "delete", topics:
                for topic in topics:
                    del self.topics[topic]
            case _:
                raise ScenarioError(f"this core does not know {name} {' '.join(args)}")
        return None
