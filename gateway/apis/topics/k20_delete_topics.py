"""DeleteTopics (api key 20), v1-6. Kafka has removed v0 (KIP-896).

v4 flexible | v5 error_message | v6 by name or by id (KIP-516)
Internal topics are not deleted: INVALID_REQUEST, where Kafka's broker would delete the offsets of all groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from muster.actors.controller.admin import TopicOutcome
from muster.actors.wire.kafka.codec import ErrorCode, field
from muster.gateway.apis.admin import DUPLICATE_NAME, answered, repeated, shown
from muster.gateway.apis.guards.guard import Guard
from muster.gateway.apis.guards.rights import DELETE_TOPIC, DESCRIBE_TOPIC, MESSAGES
from muster.gateway.apis.topics.mutations import exceeds_quota
from muster.gateway.listener.api import Call, Reply, Rule, api
from muster.gateway.listener.gateway import Gateway
from muster.placement.view import ClusterView, Topic

_FIRST_WITH_DISABLED_ERROR = 3


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A topic as the request names it: by name, or by id."""

    name: str | None
    topic_id: UUID | None


@dataclass(frozen=True, slots=True)
class _Refused:
    error: ErrorCode
    message: str | None = None
    name: str | None = None
    """Name of the topic; None if the request names it by id."""


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    refused = _Refused(error, call.reason)
    return {"responses": [_result(each, refused, {}) for each in _wanted(call.entity())]}


_GUARD = Guard(
    inside=(
        Rule((DESCRIBE_TOPIC,), "to learn whether it exists", ErrorCode.topic_authorization_failed),
        Rule((DELETE_TOPIC,), "", ErrorCode.topic_authorization_failed),
    )
)


@api(20, "DeleteTopics", guard=_GUARD, error_body=_error_body, is_change=True)
async def delete_topics(call: Call) -> Reply | None:
    request = call.entity()
    wanted = _wanted(request)
    found = {
        each: _charged(call, topic) if isinstance(topic, Topic) else topic
        for each, topic in _resolve(call, wanted).items()
    }
    topics = {each.name: each for each in found.values() if isinstance(each, Topic)}
    outcomes = await _delete(call.gateway, topics, request.timeout) if topics else {}
    return call.reply({"throttle_time": 0, "responses": [_result(each, found[each], outcomes) for each in found]})


def _charged(call: Call, topic: Topic) -> Topic | _Refused:
    outcome = exceeds_quota(call, topic.name, topic.partitions)
    return topic if outcome is None else _Refused(ErrorCode(outcome.error), outcome.message)


def _wanted(request: Any) -> list[_Wanted]:
    by_name = [_Wanted(name, None) for name in field(request, "topic_names", ())]
    return by_name + [_Wanted(topic.name, topic.topic_id) for topic in field(request, "topics", ())]


def _resolve(call: Call, wanted: list[_Wanted]) -> dict[_Wanted, Topic | _Refused]:
    """Return the topic to delete, or the reason not to, for each one that the request names."""
    if not call.gateway.config.delete_topic_enable:
        disabled = call.header.api_version >= _FIRST_WITH_DISABLED_ERROR
        error = ErrorCode.topic_deletion_disabled if disabled else ErrorCode.invalid_request
        return dict.fromkeys(wanted, _Refused(error, "Topic deletion is disabled."))
    duplicates = repeated(wanted)
    by_id = {each.topic_id for each in wanted if each.name is None}
    return {each: _find(call, each, each in duplicates, by_id) for each in wanted}


def _find(call: Call, wanted: _Wanted, duplicate: bool, by_id: set[UUID | None]) -> Topic | _Refused:
    view = call.gateway.view
    if wanted.name is not None and wanted.topic_id is not None:
        return _Refused(ErrorCode.invalid_request, "You may not specify both topic name and topic id.")
    if wanted.topic_id is not None:
        topic, error, message = view.topic_by_id(wanted.topic_id), ErrorCode.unknown_topic_id, "Duplicate topic id."
    elif wanted.name is not None:
        topic, error, message = view.topics.get(wanted.name), ErrorCode.unknown_topic_or_partition, DUPLICATE_NAME
    else:
        return _Refused(ErrorCode.invalid_request, "Neither topic name nor id were specified.")
    if duplicate:
        return _Refused(ErrorCode.invalid_request, message)
    if (refused := _unauthorized(call, wanted, topic)) is not None:
        return refused
    if topic is None:
        return _Refused(error)
    if wanted.name is not None and topic.topic_id in by_id:
        return _Refused(ErrorCode.invalid_request, "The provided topic name maps to an ID that was already supplied.")
    if topic.internal:
        return _Refused(ErrorCode.invalid_request, f"{topic.name} is an internal topic and cannot be deleted.")
    return topic


def _unauthorized(call: Call, wanted: _Wanted, topic: Topic | None) -> _Refused | None:
    """Refuse by the name, whether or not a topic has it: that is a secret.

    An id that no topic has is none (KIP-516).
    """
    refused = _Refused(ErrorCode.topic_authorization_failed, MESSAGES[ErrorCode.topic_authorization_failed])
    if wanted.name is not None and not DESCRIBE_TOPIC.allowed(call, wanted.name):
        return refused
    if topic is None or DELETE_TOPIC.allowed(call, topic.name):
        return None
    return replace(refused, name=topic.name) if DESCRIBE_TOPIC.allowed(call, topic.name) else refused


async def _delete(gateway: Gateway, topics: Mapping[str, Topic], timeout_ms: int) -> dict[str, TopicOutcome]:
    def gone(view: ClusterView, outcome: TopicOutcome) -> bool:
        there = view.topics.get(outcome.name)
        return there is None or there.topic_id != topics[outcome.name].topic_id

    outcomes = await answered(topics, gateway.controller.delete_topics(list(topics)))
    return await shown(gateway, outcomes, gone, timeout_ms)


def _result(wanted: _Wanted, found: Topic | _Refused, outcomes: Mapping[str, TopicOutcome]) -> dict[str, Any]:
    if isinstance(found, _Refused):
        return {
            "name": found.name if wanted.name is None else wanted.name,
            "topic_id": wanted.topic_id,
            "error_code": found.error,
            "error_message": found.message,
        }
    outcome = outcomes[found.name]
    return {
        "name": found.name,
        "topic_id": found.topic_id,
        "error_code": outcome.error,
        "error_message": outcome.message if outcome.error else None,
    }
