"""A group as DescribeGroups tells it, and its members in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka.admin import AdminClient

from gateway.cli.errors import CliError
from gateway.cli.kafka import TIMEOUT_S, result
from gateway.cli.output import counted

_NAMED = 5


def described(client: AdminClient, group: str) -> Any:
    """confluent-kafka's description; of a group that does not exist, one without members, Dead. CliError."""
    if not group:
        raise CliError("a group has a name")
    asked = client.describe_consumer_groups([group], request_timeout=TIMEOUT_S)
    return result(asked[group], f"group {group} cannot be described")


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
