"""``muster topics``: list, create, alter, delete and describe topics, over Kafka's own APIs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.narrow import Column, Kind
from muster.actors.runtime.words import counted
from muster.gateway.cli.client.cluster import admin, end_offsets, partitions_of
from muster.gateway.cli.client.gateways import Gateways
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.messages import produce, tail
from muster.gateway.cli.names import NAME
from muster.gateway.cli.numbers import Whole
from muster.gateway.cli.output import print_json, print_table, print_text, with_wide
from muster.gateway.cli.running import bootstrap_servers, by_bootstrap
from muster.gateway.cli.suggestions import Commands
from muster.gateway.client.kafka.refusals import check
from muster.gateway.client.kafka.requests import EARLIEST, LATEST, metadata
from muster.gateway.client.kafka.topics import CREATE_TOPICS, DESCRIBE_CONFIGS, REQUEST_TIMEOUT_MS, TOPIC, new_topic

_DELETE, _ALTER_CONFIGS = (20, 6), (44, 1)
_SET, _RESET = 0, 1
"""Operations of IncrementalAlterConfigs on a config."""
_DEFAULT = "DEFAULT_CONFIG"
_SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: _DEFAULT,
}
"""Sources of a topic's configs; ``muster.actors.config.rows`` has all, and takes long to import."""
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state"})


@click.group(cls=Commands, epilog="Example: muster topics create flights --partitions 6")
def topics() -> None:
    """List, create, alter, delete and describe topics, and send and show messages."""


for _command in (produce, tail):
    topics.add_command(_command)


@topics.command("list", epilog="Example: muster topics list --json")
@by_bootstrap
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(bootstrap_server: str | None, directory: Path, address: str | None, as_json: bool) -> None:
    """Show every topic and how many partitions it has."""
    client = admin(bootstrap_servers(bootstrap_server, directory, address))
    found = metadata(client).topics
    rows = [
        {"name": name, "partitions": len(partitions), "internal": name in _INTERNAL}
        for name, partitions in sorted(found.items())
    ]
    if as_json:
        print_json(rows)
    else:
        count = counted(sum(map(len, found.values())), "partition")
        print_table(
            (Column("TOPIC", Kind.NAME), "PARTITIONS"),
            [(row["name"], row["partitions"]) for row in rows],
            f"{counted(len(rows), 'topic')}, {count}",
        )


@topics.command(epilog="Example: muster topics create flights --partitions 6 --config retention.ms=86400000")
@click.argument("name", type=NAME)
@by_bootstrap
@click.option("--partitions", type=Whole(1), help="Number of partitions. Default: num.partitions.")
@click.option("--config", "configs", multiple=True, type=NAME, metavar="NAME=VALUE", help="Set a config of the topic.")
def create(
    name: str,
    bootstrap_server: str | None,
    directory: Path,
    address: str | None,
    partitions: int | None,
    configs: tuple[str, ...],
) -> None:
    """Create the topic NAME."""
    client = admin(bootstrap_servers(bootstrap_server, directory, address))
    body = new_topic(name, partitions or -1, dict(map(_split, configs)))
    (created,) = client.request(*CREATE_TOPICS, body, retriable=(), is_repeatable=False).topics
    check(created, f"topic {name} cannot be created")
    terminal.line(f"created {name}", err=True)


@topics.command(epilog="Example: muster topics alter flights --config retention.ms=86400000")
@click.argument("name", type=NAME)
@by_bootstrap
@click.option("--config", "configs", multiple=True, type=NAME, metavar="NAME=VALUE", help="Set a config of the topic.")
@click.option(
    "--delete-config", "deleted", multiple=True, type=NAME, metavar="NAME", help="Reset a config to its default."
)
def alter(
    name: str,
    bootstrap_server: str | None,
    directory: Path,
    address: str | None,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
) -> None:
    """Change configs of the topic NAME; they take effect at once."""
    if not configs and not deleted:
        raise CliError("nothing to alter: give --config NAME=VALUE or --delete-config NAME")
    client = admin(bootstrap_servers(bootstrap_server, directory, address))
    partitions_of(metadata(client), name)
    entries = [_entry(*_split(text), _SET) for text in configs]
    entries += [_entry(config, None, _RESET) for config in deleted]
    resource = {"resource_type": TOPIC, "resource_name": name, "configs": entries}
    (altered,) = client.request(*_ALTER_CONFIGS, {"resources": [resource], "validate_only": False}).responses
    check(altered, f"topic {name} cannot be altered")
    terminal.line(f"altered {name}", err=True)


def _entry(name: str, value: str | None, operation: int) -> dict[str, Any]:
    return {"name": name, "config_operation": operation, "value": value}


@topics.command(epilog="Example: muster topics delete flights")
@click.argument("name", type=NAME)
@by_bootstrap
def delete(name: str, bootstrap_server: str | None, directory: Path, address: str | None) -> None:
    """Delete the topic NAME and all its data."""
    client = admin(bootstrap_servers(bootstrap_server, directory, address))
    partitions_of(metadata(client), name)
    body = {"topics": [{"name": name, "topic_id": None}], "timeout": REQUEST_TIMEOUT_MS}
    (deleted,) = client.request(*_DELETE, body, retriable=(), is_repeatable=False).responses
    check(deleted, f"topic {name} cannot be deleted")
    terminal.line(f"deleted {name}", err=True)


@topics.command(epilog="Example: muster topics describe flights --json")
@click.argument("name", type=NAME)
@by_bootstrap
@click.option("--all", "is_all", is_flag=True, help="Show the configs that have their default, too, as --json does.")
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def describe(
    name: str, bootstrap_server: str | None, directory: Path, address: str | None, is_all: bool, as_json: bool
) -> None:
    """Show the topic NAME: the configs that are set, and the start, end and leader of each partition."""
    client = admin(bootstrap_servers(bootstrap_server, directory, address))
    partitions, configs = _partitions(client, name), _configs(client, name)
    if as_json:
        print_json({"name": name, "partitions": partitions, "configs": configs})
        return
    print_text(f"topic {name}")
    offsets = sum(each["latest"] - each["earliest"] for each in partitions)
    print_table(
        ("PARTITION", Column("LEADER", Kind.NAME), "EARLIEST", "LATEST"),
        [(each["partition"], each["leader"], each["earliest"], each["latest"]) for each in partitions],
        f"{counted(len(partitions), 'partition')}, {counted(offsets, 'offset')}",
    )
    shown = [each for each in configs if is_all or each["source"] != _DEFAULT]
    if shown:
        terminal.line()
        print_table(
            (Column("CONFIG", Kind.NAME), Column("VALUE", Kind.LIST), Column("FROM", optional=True)),
            [(each["name"], each["value"], each["source"]) for each in shown],
        )
    left = len(configs) - len(shown)
    has_default = f", {left} {'has its' if left == 1 else 'have their'} default: --all" if left else ""
    print_text(f"{counted(len(shown), 'config')}{'' if is_all else ' set'}{has_default}", err=True)


def _partitions(client: Gateways, name: str) -> list[dict[str, Any]]:
    cluster = metadata(client)
    found = partitions_of(cluster, name)
    earliest, latest = (end_offsets(client, name, sorted(found), at) for at in (EARLIEST, LATEST))
    return [
        {
            "partition": index,
            "leader": cluster.brokers.get(found[index]),
            "earliest": earliest[index],
            "latest": latest[index],
        }
        for index in sorted(found)
    ]


def _configs(client: Gateways, name: str) -> list[dict[str, Any]]:
    resource = {"resource_type": TOPIC, "resource_name": name, "configuration_keys": None}
    body = {"resources": [resource], "include_synonyms": False, "include_documentation": False}
    (found,) = client.request(*DESCRIBE_CONFIGS, body).results
    check(found, f"configs of topic {name} cannot be read")
    return [
        {"name": entry.name, "value": entry.value, "source": _SOURCES.get(entry.config_source, "UNKNOWN_CONFIG")}
        for entry in sorted(found.configs, key=lambda entry: str(entry.name))
    ]


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CliError(f"--config {text} is not NAME=VALUE")
    return name, value
