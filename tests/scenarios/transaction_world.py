"""A bare transaction coordinator in virtual time, with partitions that take their markers at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

from kio.schema.errors import ErrorCode

from muster.actors.group.types import Token
from muster.actors.transactions.apis.partitions import refused
from muster.actors.transactions.codec import adapters
from muster.actors.transactions.config import TransactionConfig
from muster.actors.transactions.messages import (
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    Request,
    TransactionResult,
)
from muster.actors.transactions.types import TOPIC_DELETED
from muster.actors.wire.kafka import codec
from tests.scenarios.language import Scenario
from tests.scenarios.play import LAST_EPOCH, TOPICS, ReceivedResponse
from tests.scenarios.requests import newest
from tests.scenarios.values import ScenarioError
from tests.transactions.driver import Driver, at_epoch

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


class _Sent(NamedTuple):
    api_key: int
    version: int
    parts: tuple[Token | TransactionResult, ...]
    """Tokens of the coordinator's requests, and what it is not requested."""


def _joined(parts: list[Any]) -> AddPartitionsToTxnResponse:
    results = [each if isinstance(each, TransactionResult) else each.results_by_transaction[0] for each in parts]
    return AddPartitionsToTxnResponse(results_by_transaction=tuple(results))


class TransactionWorld:
    """Requests go through kio and the adapters, as in the actor, and partitions are checked as in a gateway."""

    early_ms = late_ms = 0

    def __init__(self, scenario: Scenario) -> None:
        fields = {name.replace(".", "_"): int(value) for name, value in scenario.broker.items()}
        self.topics = dict(TOPICS)
        config = TransactionConfig(**fields, offsets_topic_num_partitions=_OFFSETS_PARTITIONS)
        self.driver = _Driver(config, self.topics)

    def newest(self, api_key: int) -> int:
        return newest(api_key)

    def send(self, client: str, api_key: int, version: int, body: codec.Body) -> _Sent:
        frame = codec.encode_request(api_key, version, 1, client, body)
        header = codec.decode_header(frame)
        request = adapters.read(header, frame)
        parts = self._parts(request) if isinstance(request, AddPartitionsToTxn) else (request,)
        sent = tuple([self.driver.send(each) if isinstance(each, Request) else each for each in parts])
        return _Sent(api_key, version, sent)

    def _parts(self, request: AddPartitionsToTxn) -> Iterable[AddPartitionsToTxn | TransactionResult]:
        """Return the gateway's parts of a request: requests to coordinators, or what it refuses itself."""
        for transaction in request.transactions:
            yield refused(transaction, request.api_version, self._error_of) or replace(
                request, transactions=(transaction,)
            )

    def _error_of(self, topic: str, partition: int) -> ErrorCode:
        known = 0 <= partition < (self.partitions(topic) if topic in (*_INTERNAL, *self.topics) else 0)
        return ErrorCode.none if known else ErrorCode.unknown_topic_or_partition

    def response(self, handle: _Sent) -> ReceivedResponse:
        if self.is_parked(handle):
            raise ScenarioError("nothing will ever answer it")
        parts: list[Any] = [
            each if isinstance(each, TransactionResult) else self.driver.responses[each] for each in handle.parts
        ]
        response = _joined(parts) if handle.api_key == adapters.ADD_PARTITIONS_TO_TXN else parts[0]
        frame = codec.encode_response(handle.api_key, handle.version, 1, adapters.encode(handle.version, response))
        entity = codec.decode_response(handle.api_key, handle.version, frame)[1]
        return ReceivedResponse(entity, 0)

    def is_parked(self, handle: _Sent) -> bool:
        return any(
            not isinstance(each, TransactionResult) and each not in self.driver.responses for each in handle.parts
        )

    def sleep(self, ms: int) -> None:
        self.driver.advance(ms)

    def disconnect(self, client: str) -> None:
        """Do nothing: a core gets no notice of it."""

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
            case "exhaust", (name, *timeout_ms):
                at_epoch(self.driver, LAST_EPOCH, name, timeout_ms=int(timeout_ms[0]) if timeout_ms else 60_000)
            case "delete", topics:
                for topic in topics:
                    del self.topics[topic]
            case _:
                raise ScenarioError(f"this core does not know {name} {' '.join(args)}")
        return None
