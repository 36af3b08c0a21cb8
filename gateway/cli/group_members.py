"""A group as DescribeGroups tells it, and its members in words."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from gateway.cli.errors import CliError
from gateway.cli.kafka import TIMEOUT_S, result
from gateway.cli.output import counted

_NAMED = 5
_PAUSE_S = 0.1
_STARTING = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
"""librdkafka's DescribeGroups does not wait for a coordinator that starts."""


def described(client: AdminClient, group: str) -> Any:
    """confluent-kafka's description; of a group that does not exist, one without members, Dead. CliError."""
    if not group:
        raise CliError("a group has a name")
    deadline_s = time.monotonic() + TIMEOUT_S
    while _starts(asked := client.describe_consumer_groups([group], request_timeout=TIMEOUT_S)[group]):
        if time.monotonic() > deadline_s:
            break
        time.sleep(_PAUSE_S)
    return result(asked, f"group {group} cannot be described")


def _starts(asked: Future[Any]) -> bool:
    """Whether the answer is that the group's coordinator is not there yet."""
    try:
        error = asked.exception(TIMEOUT_S)
    except TimeoutError:
        return False
    return isinstance(error, KafkaException) and error.args[0].code() in _STARTING


def state_name(state: Any) -> str:
    """Kafka's own spelling: PREPARING_REBALANCING in librdkafka is PreparingRebalance."""
    words = str(getattr(state, "name", state)).split("_")
    return "".join(word.capitalize() for word in words).replace("Rebalancing", "Rebalance")


def in_words(members: Sequence[Any]) -> str:
    """Who they are, of many the first few."""
    named = ", ".join(
        f"{member.member_id} (client {member.client_id or '-'} on {member.host or '-'}"
        f"{f', instance {member.group_instance_id}' if member.group_instance_id else ''})"
        for member in members[:_NAMED]
    )
    return f"{named} and {len(members) - _NAMED} more" if len(members) > _NAMED else named


def check_empty(group: str, members: Sequence[Any], what: str) -> None:
    """CliError that names the members, if there are any."""
    if members:
        raise CliError(
            f"group {group} has {counted(len(members), 'member')}, so {what}; stop first: {in_words(members)}"
        )
