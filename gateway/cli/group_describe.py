"""``muster groups describe``: members, and how far each partition is behind, in messages and in seconds."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Any

import click
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from actors import terminal
from gateway.cli import http, offsets
from gateway.cli.coordinator import Coordinator
from gateway.cli.errors import CliError
from gateway.cli.group_members import described, state_name
from gateway.cli.kafka import admin
from gateway.cli.names import NAME
from gateway.cli.offsets import Partition
from gateway.cli.output import print_json, print_table
from gateway.cli.running import bootstrap_servers, by_bootstrap
from gateway.cli.topics import end_offsets
from gateway.lag import End, Owner, rows
from placement.host_port import host_port

_NO_SECONDS = "no lag in seconds: it is Muster's own and not told over Kafka's protocol; leave --bootstrap-server out"


@click.command(
    short_help="Show the members of a group, and how far it is behind.",
    epilog="Example: muster groups describe billing --json",
)
@click.argument("group", type=NAME)
@by_bootstrap
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
def describe(group: str, bootstrap_server: str | None, directory: Path, address: str | None, as_json: bool) -> None:
    """Show the group GROUP: state, protocol, members, and for each partition how far it is behind.

    LAG is in messages. LAG (S) is how many seconds ago the first message that is not consumed was appended to the
    log, by the log's own clock; it is empty where that is not known.
    """
    bootstrap = bootstrap_servers(bootstrap_server, directory, address)
    client = admin(bootstrap)
    found = described(client, group)
    note: str | None = _NO_SECONDS
    if bootstrap_server:
        partitions = _rows_over_kafka(client, bootstrap, group, found.members)
    else:
        partitions, note = _rows_over_http(directory, address, client, bootstrap, group, found.members)
    if state_name(found.state) == "Dead" and not partitions:
        raise CliError(f"there is no group {group}; muster groups list shows those that are")
    if as_json:
        print_json({**_head(group, found), "offsets": partitions, "note": note})
    else:
        _print(_head(group, found), partitions, note)


def _rows_over_http(
    directory: Path, address: str | None, client: AdminClient, bootstrap: str, group: str, members: Any
) -> tuple[list[dict[str, Any]], str | None]:
    """The gateway's, all of one moment; without seconds where no gateway answers over HTTP."""
    try:
        return list(http.ask(directory, address, "/v1/groups/lag", group=group)["partitions"]), None
    except http.NotTold as error:
        return _rows_over_kafka(client, bootstrap, group, members), f"no lag in seconds: {error.message}"
    except http.Refused as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return [], None
        raise CliError(f"the lag of group {group} cannot be told: {error.message}") from error


def _rows_over_kafka(client: AdminClient, bootstrap: str, group: str, members: Any) -> list[dict[str, Any]]:
    with Coordinator(bootstrap, group) as coordinator:
        committed = {key: found.offset for key, found in offsets.fetch(coordinator).items()}
    owners = {
        key: Owner(str(member.member_id), str(member.client_id), str(member.host))
        for member in members
        for key in _assigned(member)
    }
    wanted: dict[str, list[int]] = {}
    for topic, partition in {*committed, *owners}:
        wanted.setdefault(topic, []).append(partition)
    ends = {
        (topic, partition): End(end)
        for topic, partitions in wanted.items()
        for partition, end in _ends(client, topic, partitions).items()
    }
    return rows(committed, ends, owners)


def _ends(client: AdminClient, topic: str, partitions: list[int]) -> dict[int, int]:
    """Empty where the topic is gone but its offsets are still kept."""
    try:
        return end_offsets(client, topic, partitions)
    except CliError as error:
        if isinstance(error.__cause__, KafkaException):
            return {}
        raise


def _assigned(member: Any) -> list[Partition]:
    assigned = member.assignment.topic_partitions if member.assignment else []
    return sorted((each.topic, each.partition) for each in assigned)


def _head(group: str, found: Any) -> dict[str, Any]:
    return {
        "group": group,
        "state": state_name(found.state),
        "protocol": found.partition_assignor,
        "coordinator": host_port(found.coordinator.host, found.coordinator.port) if found.coordinator else None,
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.host,
                "group_instance_id": member.group_instance_id,
                "assignment": [{"topic": topic, "partition": partition} for topic, partition in _assigned(member)],
            }
            for member in sorted(found.members, key=lambda member: str(member.member_id))
        ],
    }


def _print(head: dict[str, Any], partitions: list[dict[str, Any]], note: str | None) -> None:
    terminal.line(
        f"group {head['group']}  state {head['state']}  protocol {head['protocol'] or '-'}  "
        f"coordinator {head['coordinator'] or '-'}  members {len(head['members'])}"
    )
    terminal.line()
    print_table(
        ("MEMBER", "CLIENT ID", "HOST", "INSTANCE ID", "ASSIGNMENT"),
        [
            (each["member_id"], each["client_id"], each["host"], each["group_instance_id"], _short(each["assignment"]))
            for each in head["members"]
        ],
    )
    terminal.line()
    columns = ["topic", "partition", "committed_offset", "end_offset", "lag", "lag_s", "client_id", "member_id"]
    titles = ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "LAG (S)", "CLIENT ID", "MEMBER"]
    if note:
        columns.remove("lag_s")
        titles.remove("LAG (S)")
    print_table(
        titles, [[_seconds(row[name]) if name == "lag_s" else row[name] for name in columns] for row in partitions]
    )
    if note:
        terminal.line()
        terminal.line(note)


def _seconds(lag_s: float | None) -> str | None:
    return None if lag_s is None else f"{lag_s:.3f}".rstrip("0").rstrip(".")


def _short(assignment: list[dict[str, Any]]) -> str | None:
    return ", ".join(f"{each['topic']}-{each['partition']}" for each in assignment) or None
