"""Shared by the administrative APIs: authorization, the controller's response, waiting until a change is visible."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from muster.actors.controller.admin import TopicOutcome
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.listener.controller import ControllerUnavailable
from muster.placement.topics import InvalidTopic, check_name
from muster.placement.view import COORDINATORS, ClusterView

if TYPE_CHECKING:
    from muster.gateway.listener.gateway import Gateway

T = TypeVar("T", bound=Hashable)

MAX_PARTITIONS_PER_REQUEST = 10_000
"""Limit of Kafka's controller (MAX_PARTITIONS_PER_BATCH); more is POLICY_VIOLATION."""

TOO_MANY_PARTITIONS = "Excessively large number of partitions per request."
DUPLICATE_NAME = "Duplicate topic name."

INTERNAL_TOPICS = frozenset({*COORDINATORS, "__share_group_state"})
"""Topics that Kafka reserves for itself, whether they exist or not; a Metadata request does not create them."""

SECURITY_DISABLED = {"error_code": ErrorCode.security_disabled, "error_message": "No Authorizer is configured."}
"""The response of a Kafka broker without an authorizer to requests that change ACLs."""

_TRUE = (ErrorCode.none, ErrorCode.topic_already_exists)
"""Outcomes that show the state of a topic."""

_BROKERS_S = 2.0


def repeated(names: Iterable[T]) -> set[T]:
    """Return the items that occur more than once. Kafka refuses each once, and does nothing for it."""
    return {name for name, times in Counter(names).items() if times > 1}


def refusal(name: str, error: ErrorCode, message: str | None = None) -> TopicOutcome:
    return TopicOutcome(name, int(error), message)


def name_error(name: str) -> str | None:
    """Why this topic name gets INVALID_TOPIC_EXCEPTION; None for a valid name."""
    try:
        check_name(name)
    except InvalidTopic as error:
        return str(error)
    return None


async def answered(names: Iterable[str], pending: Awaitable[list[TopicOutcome]]) -> dict[str, TopicOutcome]:
    """Return the controller's outcome for each name; if there is none, REQUEST_TIMED_OUT, which clients retry."""
    try:
        outcomes = {outcome.name: outcome for outcome in await pending}
    except ControllerUnavailable:
        outcomes = {}
    absent = "The controller did not answer in time."
    return {name: outcomes.get(name) or refusal(name, ErrorCode.request_timed_out, absent) for name in names}


async def shown(
    gateway: Gateway,
    outcomes: dict[str, TopicOutcome],
    shows: Callable[[ClusterView, TopicOutcome], bool],
    timeout_ms: int,
) -> dict[str, TopicOutcome]:
    """Wait until the gateways' views show what was done, so that the client's next request finds it.

    Returns the outcomes. What this gateway's view does not show after the timeout becomes REQUEST_TIMED_OUT, as in
    Kafka (a timeout of 0 means not to wait). A topic that is said to exist must exist everywhere, too.
    """
    done = [outcome for outcome in outcomes.values() if not outcome.error]
    timeout_s = max(timeout_ms, 0) / 1000
    end_s = time.monotonic() + timeout_s
    if timeout_s and any(outcome.error in _TRUE for outcome in outcomes.values()):
        await everywhere(gateway, timeout_s)
    left_s = end_s - time.monotonic()
    if await gateway.until_view(lambda view: all(shows(view, outcome) for outcome in done), left_s):
        return outcomes
    late = "Done, but not everywhere known within the request's timeout."
    return outcomes | {
        outcome.name: replace(outcome, error=int(ErrorCode.request_timed_out), message=late)
        for outcome in done
        if not shows(gateway.view, outcome)
    }


async def until_brokers(gateway: Gateway) -> None:
    """Wait until the view names a broker, if it names none: a gateway that has just started may not have that view yet.

    No client can use a list without brokers; librdkafka requests it again only after minutes. Bounded.
    """
    if not gateway.view.brokers:
        await gateway.until_view(lambda view: bool(view.brokers), _BROKERS_S)


async def everywhere(gateway: Gateway, timeout_s: float) -> None:
    """Wait until every serving gateway has what the controller has published; see :class:`ViewFeed`. Bounded."""
    with contextlib.suppress(ControllerUnavailable, TimeoutError):
        async with asyncio.timeout(timeout_s):
            await gateway.controller.until_followed(timeout_s)
