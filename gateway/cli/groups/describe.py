"""``muster groups describe``: members, and the lag of each partition, in messages and in seconds."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.narrow import Column, Kind
from muster.actors.runtime.words import counted
from muster.gateway.cli import http
from muster.gateway.cli.client.cluster import admin, end_offsets
from muster.gateway.cli.client.gateways import Coordinator, Gateways
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.groups.known import unknown
from muster.gateway.cli.groups.lag import seconds
from muster.gateway.cli.names import NAME
from muster.gateway.cli.output import print_fields, print_json, print_table, print_text, with_wide
from muster.gateway.cli.running import bootstrap_servers, by_bootstrap
from muster.gateway.client.groups import assignments, offsets
from muster.gateway.client.groups.assignments import CONSUMER
from muster.gateway.client.groups.members import Group, described
from muster.gateway.client.kafka.refusals import Refused
from muster.gateway.lag.partitions import End, Owner, lacks_commit, rows

_MEMBERS = (
    Column("MEMBER", Kind.ID),
    Column("CLIENT ID", Kind.NAME, optional=True),
    Column("HOST", optional=True),
    Column("INSTANCE ID", Kind.NAME, optional=True),
    Column("ASSIGNMENT", Kind.LIST),
)
_PARTITIONS = {
    "topic": Column("TOPIC", Kind.NAME),
    "partition": Column("PARTITION"),
    "committed_offset": Column("COMMITTED", optional=True),
    "end_offset": Column("END", optional=True),
    "lag": Column("LAG"),
    "lag_s": Column("LAG (S)"),
    "client_id": Column("CLIENT ID", Kind.NAME, optional=True),
    "member_id": Column("MEMBER", Kind.ID),
}
_NO_SECONDS = "no lag in seconds: it is Muster's own and not part of Kafka's protocol; leave --bootstrap-server out"


@click.command(
    short_help="Show the members of a group, and how far it is behind.",
    epilog="Example: muster groups describe billing --json",
)
@click.argument("group", type=NAME)
@by_bootstrap
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def describe(group: str, bootstrap_server: str | None, directory: Path, address: str | None, as_json: bool) -> None:
    """Show the group GROUP: its state, protocol and members, and the lag of each partition.

    LAG is in messages. LAG (S) is the age of the first unconsumed message in seconds, by the log's own clock, or - if
    unknown. ASSIGNMENT is the partitions of a consumer, or the connectors and tasks of a Kafka Connect worker; for a
    member of any other protocol type, the size of the assignment.
    """
    bootstrap = bootstrap_servers(bootstrap_server, directory, address)
    client = admin(bootstrap)
    found = described(partial(Coordinator, bootstrap), group)
    note: str | None = _NO_SECONDS
    if bootstrap_server:
        partitions = _rows_over_kafka(client, bootstrap, found)
    else:
        partitions, note = _rows_over_http(directory, address, client, bootstrap, found)
    if not found.exists and not partitions:
        raise unknown(group, lambda: bootstrap)
    if as_json:
        print_json({**_as_json(found), "offsets": partitions, "note": note})
    else:
        _print(found, partitions, note)


def _rows_over_http(
    directory: Path, address: str | None, client: Gateways, bootstrap: str, group: Group
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the gateway's rows, all of one moment; without seconds if no gateway responds over HTTP."""
    try:
        return list(http.get_json(directory, address, "/v1/groups/lag", group=group.name)["partitions"]), None
    except http.NoHttpResponse as error:
        return _rows_over_kafka(client, bootstrap, group), f"no lag in seconds: {error.message}"
    except http.HttpError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return [], None
        if error.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return _rows_over_kafka(client, bootstrap, group), f"no lag in seconds: {error.message}"
        raise CliError(f"the lag of group {group.name} cannot be read: {error.message}") from error


def _rows_over_kafka(client: Gateways, bootstrap: str, group: Group) -> list[dict[str, Any]]:
    with Coordinator(bootstrap, group.name) as coordinator:
        committed = {key: found.offset for key, found in offsets.fetch(coordinator).items()}
    owners = {
        key: Owner(member.member_id, member.client_id, member.host)
        for member in group.members
        for key in assignments.partitions(group.protocol_type, member)
    }
    wanted: dict[str, list[int]] = {}
    for topic, partition in {*committed, *owners}:
        wanted.setdefault(topic, []).append(partition)
    ends = {
        (topic, partition): End(end)
        for topic, partitions in wanted.items()
        for partition, end in _ends(client, topic, partitions).items()
    }
    return rows(committed, ends, owners, {})


def _ends(client: Gateways, topic: str, partitions: list[int]) -> dict[int, int]:
    """Return log ends; empty if the topic is deleted but its offsets are still kept."""
    try:
        return end_offsets(client, topic, partitions)
    except Refused:
        return {}


def _as_json(group: Group) -> dict[str, Any]:
    return {
        "group": group.name,
        "state": group.state,
        "protocol_type": group.protocol_type or None,
        "protocol": group.protocol,
        "type": "classic" if group.epoch is None else "consumer",
        "epoch": group.epoch,
        "coordinator": group.coordinator,
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.host,
                "group_instance_id": member.group_instance_id,
                "assignment": assignments.as_json(group.protocol_type, member),
            }
            for member in group.members
        ],
    }


def _print(group: Group, partitions: list[dict[str, Any]], note: str | None) -> None:
    print_fields(
        f"group {group.name}",
        f"state {group.state}",
        f"protocol {group.protocol or '-'} ({group.protocol_type or '-'})",
        *([] if group.epoch is None else [f"epoch {group.epoch}"]),
        f"coordinator {group.coordinator}",
        f"members {len(group.members)}",
    )
    terminal.line()
    print_table(
        _MEMBERS,
        [
            (
                *(each.member_id, each.client_id, each.host, each.group_instance_id),
                assignments.in_words(group.protocol_type, each),
            )
            for each in group.members
        ],
        counted(len(group.members), "member"),
    )
    if not partitions and group.protocol_type not in ("", CONSUMER):
        return
    terminal.line()
    columns = {name: column for name, column in _PARTITIONS.items() if name != "lag_s" or not note}
    lags = [row["lag"] for row in partitions if row["lag"] is not None]
    without = sum(lacks_commit(row) for row in partitions)
    sums = [f"lag {sum(lags)}"] * bool(lags) + [f"{without} without a commit"] * bool(without)
    print_table(
        list(columns.values()),
        [[seconds(row[name]) if name == "lag_s" else row[name] for name in columns] for row in partitions],
        ", ".join([counted(len(partitions), "partition"), *sums]),
    )
    if note:
        terminal.line()
        print_text(note)
