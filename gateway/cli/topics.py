"""``muster topics``: list, create, alter, delete and describe topics, over Kafka's own APIs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from muster.actors.runtime import terminal
from muster.actors.runtime.narrow import Column, Kind
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.kafka import EARLIEST, LATEST, TIMEOUT_S, admin, end_offsets, metadata, partitions_of, result
from muster.gateway.cli.messages import produce, tail
from muster.gateway.cli.names import NAME
from muster.gateway.cli.numbers import Whole
from muster.gateway.cli.output import counted, print_json, print_table, print_text, with_wide
from muster.gateway.cli.running import bootstrap_servers, by_bootstrap
from muster.gateway.cli.suggestions import Commands
from muster.placement.host_port import host_port

_DEFAULT = ConfigSource.DEFAULT_CONFIG.name
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
        {"name": name, "partitions": len(topic.partitions), "internal": name in _INTERNAL}
        for name, topic in sorted(found.items())
    ]
    if as_json:
        print_json(rows)
    else:
        partitions = counted(sum(len(topic.partitions) for topic in found.values()), "partition")
        print_table(
            (Column("TOPIC", Kind.NAME), "PARTITIONS"),
            [(row["name"], row["partitions"]) for row in rows],
            f"{counted(len(rows), 'topic')}, {partitions}",
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
    new = NewTopic(name, num_partitions=partitions or -1, config=dict(_split(text) for text in configs))
    result(client.create_topics([new], request_timeout=TIMEOUT_S)[name], f"topic {name} cannot be created")
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
    entries = [_entry(*_split(text), AlterConfigOpType.SET) for text in configs]
    entries += [_entry(config, None, AlterConfigOpType.DELETE) for config in deleted]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    futures = client.incremental_alter_configs([resource], request_timeout=TIMEOUT_S)
    result(futures[resource], f"topic {name} cannot be altered")
    terminal.line(f"altered {name}", err=True)


def _entry(name: str, value: str | None, operation: AlterConfigOpType) -> ConfigEntry:
    return ConfigEntry(name, value, incremental_operation=operation)


@topics.command(epilog="Example: muster topics delete flights")
@click.argument("name", type=NAME)
@by_bootstrap
def delete(name: str, bootstrap_server: str | None, directory: Path, address: str | None) -> None:
    """Delete the topic NAME and all its data."""
    client = admin(bootstrap_servers(bootstrap_server, directory, address))
    partitions_of(metadata(client), name)
    result(client.delete_topics([name], request_timeout=TIMEOUT_S)[name], f"topic {name} cannot be deleted")
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


def _partitions(client: AdminClient, name: str) -> list[dict[str, Any]]:
    cluster = metadata(client)
    found = partitions_of(cluster, name)
    hosts = {broker.id: host_port(str(broker.host), broker.port) for broker in cluster.brokers.values()}
    earliest, latest = (end_offsets(client, name, sorted(found), spec) for spec in (EARLIEST, LATEST))
    return [
        {
            "partition": index,
            "leader": hosts.get(found[index].leader),
            "earliest": earliest[index],
            "latest": latest[index],
        }
        for index in sorted(found)
    ]


def _configs(client: AdminClient, name: str) -> list[dict[str, Any]]:
    resource = ConfigResource(ResourceType.TOPIC, name)
    futures = client.describe_configs([resource], request_timeout=TIMEOUT_S)
    entries = result(futures[resource], f"configs of topic {name} cannot be read")
    return [
        {"name": entry.name, "value": entry.value, "source": ConfigSource(entry.source).name}
        for _, entry in sorted(entries.items())
    ]


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CliError(f"--config {text} is not NAME=VALUE")
    return name, value
