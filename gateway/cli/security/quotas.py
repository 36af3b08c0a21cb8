"""``muster quotas``: list, set and remove quotas, over Kafka's own APIs. A group's is a config of the group."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.narrow import Column, Kind
from muster.actors.runtime.words import counted
from muster.gateway.cli.client.gateways import Gateways
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import NAME
from muster.gateway.cli.numbers import Real, Whole
from muster.gateway.cli.output import print_json, print_table, with_wide
from muster.gateway.cli.running import bootstrap_servers, by_bootstrap
from muster.gateway.cli.suggestions import Commands

_DESCRIBE, _ALTER, _ALTER_CONFIGS, _DESCRIBE_CONFIGS, _LIST_CONFIGS = 48, 49, 44, 32, 74
_SET, _DELETE = 0, 1
_GROUP_BYTE_RATE, _GROUP = "group.byte.rate", 32
"""A config of groups, and their type in Kafka's requests. The modules that have them are slow to import."""
_DEFAULT = "<default>"
_UNITS: dict[str, int] = {"": 1, "b": 1} | {
    f"{prefix}{infix}b": base**power
    for power, prefix in enumerate("kmgt", 1)
    for infix, base in (("", 1000), ("i", 1024))
}
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?i?B?)(?:/s)?", re.IGNORECASE)
_KEYS = {
    "producer_rate": "producer_byte_rate",
    "consumer_rate": "consumer_byte_rate",
    "request_percentage": "request_percentage",
    "mutation_rate": "controller_mutation_rate",
    "connection_rate": "connection_creation_rate",
}


def _rate(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """Parse bytes per second."""
    if text is None:
        return None
    found = _RATE.fullmatch(text.strip())
    unit = _UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise click.BadParameter(f"{text} is no rate such as 500kB/s, 10MiB/s or 1048576")
    bytes_per_s: int = round(float(found[1]) * unit)
    if bytes_per_s < 1:
        raise click.BadParameter("it is less than 1 byte per second; muster quotas remove removes a quota")
    return bytes_per_s


_POSITIVE = Real(is_open=True)


def _entity(command: Any) -> Any:
    """Add the options that name the quotas' entity."""
    for option in (
        click.option("--group", type=NAME, metavar="GROUP", help="A consumer group: all its members together."),
        click.option("--ip", type=NAME, metavar="ADDRESS", help=f"An address; {_DEFAULT} for all others."),
        click.option("--client-id", type=NAME, metavar="ID", help=f"A client id; {_DEFAULT} for all others."),
        click.option("--user", type=NAME, metavar="NAME", help=f"A user; {_DEFAULT} for all others."),
    ):
        command = option(command)
    return command


@click.group(cls=Commands, epilog="Example: muster quotas set --user ann --producer-rate 10MiB/s")
def quotas() -> None:
    """List, set and remove quotas: limits on the load by clients.

    Each gateway applies them by itself, as Kafka's brokers do.
    """


@quotas.command("list", epilog="Example: muster quotas list --json")
@by_bootstrap
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(bootstrap_server: str | None, directory: Path, address: str | None, as_json: bool) -> None:
    """Show all quotas."""
    with _gateway(bootstrap_server, directory, address) as gateway:
        response = gateway.request(_DESCRIBE, 1, {"components": [], "strict": False})
        _check(response.error_code, response.error_message, "quotas cannot be listed")
        rows = [
            {**{part.entity_type: part.entity_name for part in entry.entity}, "quota": each.key, "value": each.value}
            for entry in response.entries
            for each in entry.values
        ]
        rows += _of_groups(gateway)
    if as_json:
        print_json(rows)
        return
    print_table(
        (Column("OF", Kind.NAME), "QUOTA", "VALUE"),
        [(_text(row), str(row["quota"]), f"{row['value']:.15g}") for row in rows],
        counted(len(rows), "quota") if rows else None,
    )
    if not rows:
        terminal.line("there are no quotas", err=True)


@quotas.command("set", epilog="Example: muster quotas set --group billing --group-rate 5MB/s")
@by_bootstrap
@_entity
@click.option(
    "--producer-rate", type=NAME, callback=_rate, metavar="RATE", help="Bytes that may be produced per second: 10MiB/s."
)
@click.option(
    "--consumer-rate", type=NAME, callback=_rate, metavar="RATE", help="Bytes that may be fetched per second."
)
@click.option(
    "--group-rate", type=NAME, callback=_rate, metavar="RATE", help="Bytes that --group may fetch per second."
)
@click.option(
    "--request-percentage", type=Real(is_open=True, shown="PERCENT"), help="Share of a gateway's time for requests."
)
@click.option("--mutation-rate", type=_POSITIVE, help="Partitions that may be created and deleted per second.")
@click.option("--connection-rate", type=Whole(1), help="Connections per second of --ip.")
def set_(bootstrap_server: str | None, directory: Path, address: str | None, **chosen: Any) -> None:
    """Set quotas; others of the user, client or address stay. They are in force when the command ends."""
    group, rate = chosen.pop("group"), chosen.pop("group_rate")
    wanted = {key: chosen[name] for name, key in _KEYS.items() if chosen[name] is not None}
    if (group is None) != (rate is None) or (group is not None and wanted):
        raise click.UsageError("--group and --group-rate belong together, without other quotas.")
    if group is None and not wanted:
        raise click.UsageError("Name a quota to set, for example --producer-rate 10MiB/s.")
    with _gateway(bootstrap_server, directory, address) as gateway:
        if group is not None:
            _alter_group(gateway, group, _SET, str(rate))
        else:
            operations = [{"key": key, "value": float(value), "remove": False} for key, value in wanted.items()]
            _alter(gateway, _parts(chosen), operations)


@quotas.command(epilog="Example: muster quotas remove --client-id '<default>'")
@by_bootstrap
@_entity
@click.option(
    "--quota",
    "keys",
    multiple=True,
    type=click.Choice(tuple(_KEYS.values())),
    metavar="QUOTA",
    help=f"Only this quota: {', '.join(_KEYS.values())}. May be repeated.",
)
def remove(
    bootstrap_server: str | None, directory: Path, address: str | None, keys: tuple[str, ...], **chosen: Any
) -> None:
    """Remove the quotas of a user, a client, an address or a group."""
    group = chosen.pop("group")
    with _gateway(bootstrap_server, directory, address) as gateway:
        if group is not None:
            _alter_group(gateway, group, _DELETE, None)
            return
        parts = _parts(chosen)
        possible = [key for key in _KEYS.values() if (key == "connection_creation_rate") == (parts[0][0] == "ip")]
        operations = [{"key": key, "value": 0.0, "remove": True} for key in keys or possible]
        _alter(gateway, parts, operations)


def _gateway(bootstrap_server: str | None, directory: Path, address: str | None) -> Gateways:
    return Gateways(bootstrap_servers(bootstrap_server, directory, address))


def _parts(chosen: Mapping[str, str | None]) -> list[tuple[str, str | None]]:
    named = (("user", chosen["user"]), ("client-id", chosen["client_id"]), ("ip", chosen["ip"]))
    parts = [(kind, None if name == _DEFAULT else name) for kind, name in named if name is not None]
    if not parts or (len(parts) > 1 and chosen["ip"] is not None):
        raise click.UsageError("Name a user, a client id or both, or an address, or a group.")
    return parts


def _alter(gateway: Gateways, parts: list[tuple[str, str | None]], operations: list[dict[str, Any]]) -> None:
    entity = [{"entity_type": kind, "entity_name": name} for kind, name in parts]
    body = {"entries": [{"entity": entity, "ops": operations}], "validate_only": False}
    (entry,) = gateway.request(_ALTER, 1, body).entries
    _check(entry.error_code, entry.error_message, "the quotas cannot be changed")


def _alter_group(gateway: Gateways, group: str, operation: int, value: str | None) -> None:
    config = {"name": _GROUP_BYTE_RATE, "config_operation": operation, "value": value}
    resource = {"resource_type": _GROUP, "resource_name": group, "configs": [config]}
    (found,) = gateway.request(_ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False}).responses
    _check(found.error_code, found.error_message, "the quota of the group cannot be changed")


def _of_groups(gateway: Gateways) -> list[dict[str, Any]]:
    listed = gateway.request(_LIST_CONFIGS, 1, {"resource_types": [_GROUP]})
    _check(listed.error_code, None, "quotas of groups cannot be listed")
    names = [each.resource_name for each in listed.config_resources]
    if not names:
        return []
    resources = [
        {"resource_type": _GROUP, "resource_name": name, "configuration_keys": [_GROUP_BYTE_RATE]} for name in names
    ]
    body = {"resources": resources, "include_synonyms": False, "include_documentation": False}
    return [
        {"group": result.resource_name, "quota": "group_byte_rate", "value": float(config.value)}
        for result in gateway.request(_DESCRIBE_CONFIGS, 4, body).results
        for config in result.configs
        if config.value is not None
    ]


def _text(row: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{kind} {_DEFAULT if row[kind] is None else row[kind]}"
        for kind in ("user", "client-id", "ip", "group")
        if kind in row
    )


def _check(error: Any, message: str | None, what: str) -> None:
    if error:
        raise CliError(f"{what}: {message or error.name.upper()}")
