"""``muster groups``: list and describe consumer groups, over Kafka's own APIs."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import click
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from gateway.cli.errors import CliError
from gateway.cli.kafka import TIMEOUT_S, admin, result
from gateway.cli.output import print_json, print_table
from gateway.cli.running import bootstrap_servers, by_bootstrap
from gateway.cli.topics import end_offsets


@click.group(epilog="Example: muster groups describe billing")
def groups() -> None:
    """List and describe consumer groups."""


@groups.command("list", epilog="Example: muster groups list --json")
@by_bootstrap
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
def list_(bootstrap_server: str | None, directory: Path, address: str | None, as_json: bool) -> None:
    """Show every group and its state."""
    client = admin(bootstrap_servers(bootstrap_server, directory, address))
    found = result(client.list_consumer_groups(request_timeout=TIMEOUT_S), "groups cannot be listed")
    for error in found.errors:
        raise CliError(f"not every group can be listed: {error}; try again") from error
    rows = [
        {"group": group.group_id, "state": _state(group.state), "simple": group.is_simple_consumer_group}
        for group in sorted(found.valid, key=lambda group: group.group_id)
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(("GROUP", "STATE"), [(row["group"], row["state"]) for row in rows])


@groups.command(epilog="Example: muster groups describe billing --json")
@click.argument("group")
@by_bootstrap
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
def describe(group: str, bootstrap_server: str | None, directory: Path, address: str | None, as_json: bool) -> None:
    """Show the group GROUP: state, protocol, members, and for each partition how far it is behind."""
    client = admin(bootstrap_servers(bootstrap_server, directory, address))
    description = _describe(client, group)
    if as_json:
        print_json(description)
        return
    click.echo(f"group {group}  state {description['state']}  protocol {description['protocol'] or '-'}")
    click.echo()
    print_table(
        ("MEMBER", "CLIENT ID", "HOST", "INSTANCE ID", "ASSIGNMENT"),
        [
            (each["member_id"], each["client_id"], each["host"], each["group_instance_id"], _short(each["assignment"]))
            for each in description["members"]
        ],
    )
    click.echo()
    print_table(
        ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG"),
        [
            (each["topic"], each["partition"], each["committed_offset"], each["end_offset"], each["lag"])
            for each in description["offsets"]
        ],
    )


def _describe(client: AdminClient, group: str) -> dict[str, Any]:
    asked = client.describe_consumer_groups([group], request_timeout=TIMEOUT_S)
    found = result(asked[group], f"group {group} cannot be described")
    offsets = _offsets(client, group)
    if _state(found.state) == "Dead" and not offsets:
        raise CliError(f"there is no group {group}; muster groups list shows those that are")
    return {
        "group": group,
        "state": _state(found.state),
        "protocol": found.partition_assignor,
        "coordinator": f"{found.coordinator.host}:{found.coordinator.port}" if found.coordinator else None,
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.host,
                "group_instance_id": member.group_instance_id,
                "assignment": _assignment(member),
            }
            for member in sorted(found.members, key=lambda member: str(member.member_id))
        ],
        "offsets": offsets,
    }


def _offsets(client: AdminClient, group: str) -> list[dict[str, Any]]:
    wanted = [ConsumerGroupTopicPartitions(group)]
    asked = client.list_consumer_group_offsets(wanted, request_timeout=TIMEOUT_S)
    committed = result(asked[group], f"offsets of group {group} cannot be read").topic_partitions or []
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for entry in committed:
        by_topic[entry.topic].append(entry)
    return [
        row
        for topic, entries in sorted(by_topic.items())
        for row in _lags(topic, entries, _ends(client, topic, [entry.partition for entry in entries]))
    ]


def _ends(client: AdminClient, topic: str, partitions: list[int]) -> dict[int, int]:
    """Empty where the topic is gone but its offsets are still kept."""
    try:
        return end_offsets(client, topic, partitions)
    except CliError as error:
        if isinstance(error.__cause__, KafkaException):
            return {}
        raise


def _lags(topic: str, entries: list[Any], ends: dict[int, int]) -> list[dict[str, Any]]:
    rows = []
    for entry in sorted(entries, key=lambda entry: entry.partition):
        offset = entry.offset if entry.offset >= 0 else None
        end = ends.get(entry.partition)
        rows.append(
            {
                "topic": topic,
                "partition": entry.partition,
                "committed_offset": offset,
                "end_offset": end,
                "lag": None if offset is None or end is None else end - offset,
            }
        )
    return rows


def _assignment(member: Any) -> list[dict[str, Any]]:
    assigned = member.assignment.topic_partitions if member.assignment else []
    return sorted(
        ({"topic": each.topic, "partition": each.partition} for each in assigned),
        key=lambda each: (each["topic"], each["partition"]),
    )


def _short(assignment: list[dict[str, Any]]) -> str | None:
    return ", ".join(f"{each['topic']}-{each['partition']}" for each in assignment) or None


def _state(state: Any) -> str:
    """Kafka's own spelling: PREPARING_REBALANCING in librdkafka is PreparingRebalance."""
    words = str(getattr(state, "name", state)).split("_")
    return "".join(word.capitalize() for word in words).replace("Rebalancing", "Rebalance")
