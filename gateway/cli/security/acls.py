"""``muster acls``: list, add and remove ACLs, over Kafka's own APIs; the options are those of ``kafka-acls.sh``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.narrow import Column, Kind
from muster.actors.runtime.words import counted
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.cli.client.cluster import admin
from muster.gateway.cli.client.gateways import Gateways
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import NAME
from muster.gateway.cli.output import print_json, print_table, with_wide
from muster.gateway.cli.running import bootstrap_servers, by_bootstrap
from muster.gateway.cli.suggestions import Commands
from muster.gateway.client.kafka.refusals import check
from muster.placement.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)

_DESCRIBE, _CREATE, _DELETE = (29, 3), (30, 3), (31, 3)
F = TypeVar("F", bound=Callable[..., Any])
Acl = tuple[AclResourceType, str, AclPatternType, str, str, AclOperation, AclPermission]
Filter = tuple[AclResourceType, str | None, AclPatternType, str | None, str | None, AclOperation, AclPermission]
Resource = tuple[AclResourceType, str]

_COLUMNS = (
    "RESOURCE",
    Column("NAME", Kind.NAME),
    Column("PATTERN", optional=True),
    Column("PRINCIPAL", Kind.NAME),
    "PERMISSION",
    "OPERATION",
    Column("HOST", Kind.NAME),
)
_OF_TOPICS = (AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER)
_CONFIGS = (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
_MEANINGFUL = {
    AclResourceType.TOPIC: {*_OF_TOPICS, *_CONFIGS},
    AclResourceType.GROUP: {AclOperation.READ, AclOperation.DELETE, *_CONFIGS},
    AclResourceType.CLUSTER: {
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.CLUSTER_ACTION,
        AclOperation.IDEMPOTENT_WRITE,
        *_CONFIGS,
    },
    AclResourceType.TRANSACTIONAL_ID: {AclOperation.DESCRIBE, AclOperation.WRITE},
}
"""Operations of each type, besides ALL."""
_OPERATIONS = {
    operation.kafka_name: operation for operation in (AclOperation.ALL, *sorted(set().union(*_MEANINGFUL.values())))
}
_ADDED = {"literal": AclPatternType.LITERAL, "prefixed": AclPatternType.PREFIXED}
_FOUND = {**_ADDED, "any": AclPatternType.ANY, "match": AclPatternType.MATCH}


def _resources(command: F) -> F:
    """Add the options that name resources; all may be repeated."""
    for option in (
        click.option("--cluster", is_flag=True, help="ACLs of the cluster itself."),
        click.option(
            "--transactional-id",
            "transactional_ids",
            multiple=True,
            type=NAME,
            metavar="ID",
            help="A transactional id, or a prefix; * for all.",
        ),
        click.option(
            "--group", "groups", multiple=True, type=NAME, metavar="GROUP", help="A group, or a prefix; * for all."
        ),
        click.option(
            "--topic", "topics", multiple=True, type=NAME, metavar="TOPIC", help="A topic, or a prefix; * for all."
        ),
    ):
        command = option(command)
    return command


def _pattern_type(choices: Iterable[str], default: str) -> Callable[[F], F]:
    named = tuple(choices)
    text = f"How names are compared: {', '.join(named)}. Default: {default}."
    return click.option(
        "--resource-pattern-type",
        "pattern_type",
        type=click.Choice(named, case_sensitive=False),
        default=default,
        metavar="TYPE",
        help=text,
    )


def _operations(help_text: str) -> Callable[[F], F]:
    return click.option(
        "--operation",
        "operations",
        multiple=True,
        type=click.Choice(tuple(_OPERATIONS), case_sensitive=False),
        metavar="OPERATION",
        help=f"{help_text} {', '.join(_OPERATIONS)}. May be repeated.",
    )


@click.group(
    cls=Commands, epilog="Example: muster acls add --allow-principal User:ann --operation Read --topic flights"
)
def acls() -> None:
    """List, add and remove ACLs: the rights of clients."""


@acls.command("list", epilog="Example: muster acls list --topic flights --resource-pattern-type match")
@by_bootstrap
@_resources
@_pattern_type(_FOUND, "any")
@click.option("--principal", type=NAME, metavar="TYPE:NAME", help="Only ACLs with exactly this principal.")
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(
    bootstrap_server: str | None,
    directory: Path,
    address: str | None,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    transactional_ids: tuple[str, ...],
    cluster: bool,
    pattern_type: str,
    principal: str | None,
    as_json: bool,
) -> None:
    """Show ACLs: all, or those of resources. With match, all that apply to a resource, such as *."""
    client = admin(bootstrap_servers(bootstrap_server, directory, address))
    resources: Sequence[tuple[AclResourceType, str | None]]
    resources = _named(topics, groups, transactional_ids, cluster) or [(kind, None) for kind in _MEANINGFUL]
    style = _FOUND[pattern_type.lower()]
    found = _described(client, (_filter(kind, name, style, principal) for kind, name in resources))
    rows = [
        dict(zip(("resource", "name", "pattern", "principal", "permission", "operation", "host"), row, strict=True))
        for row in sorted(found)
    ]
    if as_json:
        print_json(rows)
        return
    print_table(_COLUMNS, [tuple(row.values()) for row in rows], counted(len(rows), "ACL") if rows else None)
    if not rows:
        named = bool(topics or groups or transactional_ids or cluster or principal)
        terminal.line(f"there are no {'such ' if named else ''}ACLs", err=True)


def _changes(command: F) -> F:
    """Add the options of ``add`` and ``remove`` that choose ACLs."""
    for option in (
        click.option("--idempotent", is_flag=True, help="With --producer: IdempotentWrite on the cluster, too."),
        click.option("--consumer", is_flag=True, help="All rights of a consumer on --topic and --group."),
        click.option("--producer", is_flag=True, help="All rights of a producer on --topic and --transactional-id."),
        _operations("Operation to allow or deny:"),
        click.option(
            "--deny-host",
            "deny_hosts",
            multiple=True,
            type=NAME,
            metavar="IP",
            help="Host of --deny-principal. Default: *.",
        ),
        click.option(
            "--allow-host",
            "allow_hosts",
            multiple=True,
            type=NAME,
            metavar="IP",
            help="Host of --allow-principal. Default: *.",
        ),
        click.option(
            "--deny-principal",
            "denied",
            multiple=True,
            type=NAME,
            metavar="TYPE:NAME",
            help="Whom to deny, even if another ACL allows it. May be repeated.",
        ),
        click.option(
            "--allow-principal",
            "allowed",
            multiple=True,
            type=NAME,
            metavar="TYPE:NAME",
            help="Whom to allow: User:ann; User:* is everyone. May be repeated.",
        ),
    ):
        command = option(command)
    return command


@acls.command(epilog="Example: muster acls add --allow-principal User:ann --producer --topic flights")
@by_bootstrap
@_resources
@_pattern_type(_ADDED, "literal")
@_changes
def add(bootstrap_server: str | None, directory: Path, address: str | None, pattern_type: str, **chosen: Any) -> None:
    """Add ACLs: for each principal, host, operation and resource. They are in force when the command ends."""
    wanted = _chosen(_ADDED[pattern_type.lower()], chosen)
    client = admin(bootstrap_servers(bootstrap_server, directory, address))
    for result in client.request(*_CREATE, {"creations": [_creation(acl) for acl in wanted]}).results:
        _check(result, "not every ACL can be added")
    terminal.line(f"added {counted(len(wanted), 'ACL')}", err=True)


@acls.command(epilog="Example: muster acls remove --topic flights")
@by_bootstrap
@_resources
@_pattern_type(_FOUND, "literal")
@_changes
@click.option("--yes", is_flag=True, help="Do not request a confirmation.")
def remove(
    bootstrap_server: str | None, directory: Path, address: str | None, pattern_type: str, yes: bool, **chosen: Any
) -> None:
    """Remove the ACLs that add with the same options adds; without a principal, all of the resources."""
    style = _FOUND[pattern_type.lower()]
    filters: Sequence[Filter]
    if chosen["allowed"] or chosen["denied"]:
        filters = _chosen(style, chosen)
    else:
        resources = _named(chosen["topics"], chosen["groups"], chosen["transactional_ids"], chosen["cluster"])
        if not resources:
            raise click.UsageError("Name a resource: --topic, --group, --transactional-id or --cluster.")
        if any(chosen[name] for name in ("operations", "producer", "consumer", "allow_hosts", "deny_hosts")):
            raise click.UsageError("These options need --allow-principal or --deny-principal.")
        filters = [_filter(kind, name, style, None) for kind, name in resources]
    client = admin(bootstrap_servers(bootstrap_server, directory, address))
    if not yes:
        _confirm(client, filters)
    results = client.request(*_DELETE, {"filters": [_as_filter(each) for each in filters]}).filter_results
    for each in (each for result in results for each in (result, *result.matching_acls)):
        _check(each, "not every ACL can be removed")
    terminal.line(f"removed {counted(sum(len(result.matching_acls) for result in results), 'ACL')}", err=True)


def _confirm(client: Gateways, filters: Sequence[Filter]) -> None:
    """Show what would be removed. Aborts if it must not be."""
    found = _described(client, filters)
    for kind, name, pattern, principal, permission, operation, host in sorted(found):
        terminal.line(f"{permission} {principal} from {host}: {operation} on {kind} {name} ({pattern})", err=True)
    if found:
        click.confirm(f"Remove {counted(len(found), 'ACL')}?", abort=True, err=True)


def _chosen(style: AclPatternType, options: dict[str, Any]) -> list[Acl]:
    """Return the ACLs of the options. Raises CliError if they name none, or one without a meaning."""
    pairs = _rights(options)
    clients = _clients(options)
    acls: dict[Acl, None] = {}
    for (kind, name), operations in pairs:
        pattern = AclPatternType.LITERAL if kind is AclResourceType.CLUSTER else style
        for permission, principal, host in clients:
            if ":" not in principal:
                raise CliError(f"{principal} is no principal; write TYPE:NAME, for example User:{principal}")
            acls |= dict.fromkeys(
                (kind, name, pattern, principal, host, operation, permission) for operation in operations
            )
    return list(acls)


def _clients(options: dict[str, Any]) -> list[tuple[AclPermission, str, str]]:
    found = [
        (permission, principal, host)
        for permission, principals, hosts in (
            (AclPermission.ALLOW, options["allowed"], options["allow_hosts"]),
            (AclPermission.DENY, options["denied"], options["deny_hosts"]),
        )
        for principal in principals
        for host in hosts or (WILDCARD,)
    ]
    if not found:
        raise click.UsageError("Name a principal: --allow-principal or --deny-principal.")
    if (options["allow_hosts"] and not options["allowed"]) or (options["deny_hosts"] and not options["denied"]):
        raise click.UsageError("--allow-host needs --allow-principal, --deny-host needs --deny-principal.")
    return found


def _rights(options: dict[str, Any]) -> list[tuple[Resource, tuple[AclOperation, ...]]]:
    """Return resources and operations on them."""
    topics, groups, ids = options["topics"], options["groups"], options["transactional_ids"]
    producer, consumer = options["producer"], options["consumer"]
    if not (producer or consumer):
        resources = _named(topics, groups, ids, options["cluster"])
        if not resources:
            raise click.UsageError("Name a resource: --topic, --group, --transactional-id or --cluster.")
        operations = tuple(_OPERATIONS[name] for name in options["operations"]) or (AclOperation.ALL,)
        _check_meaning(resources, operations)
        return [(resource, operations) for resource in resources]
    if options["operations"] or options["cluster"]:
        raise click.UsageError("--producer and --consumer choose the operations and resources themselves.")
    if options["denied"]:
        raise click.UsageError("--producer and --consumer need --allow-principal, and go without --deny-principal.")
    if not topics or (consumer and not groups) or (not consumer and groups) or (not producer and ids):
        raise click.UsageError("--producer needs --topic, --consumer needs --topic and --group.")
    found: list[tuple[Resource, tuple[AclOperation, ...]]] = []
    if producer:
        of_topic = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
        found += [((AclResourceType.TOPIC, name), of_topic) for name in topics]
        of_id = (AclOperation.WRITE, AclOperation.DESCRIBE)
        found += [((AclResourceType.TRANSACTIONAL_ID, name), of_id) for name in ids]
        if options["idempotent"]:
            found.append(((AclResourceType.CLUSTER, CLUSTER_NAME), (AclOperation.IDEMPOTENT_WRITE,)))
    if consumer:
        found += [((AclResourceType.TOPIC, name), (AclOperation.READ, AclOperation.DESCRIBE)) for name in topics]
        found += [((AclResourceType.GROUP, name), (AclOperation.READ,)) for name in groups]
    return found


def _check_meaning(resources: Iterable[Resource], operations: Iterable[AclOperation]) -> None:
    """Raise CliError for an operation that means nothing for a resource: a gateway would store it."""
    for kind, _ in resources:
        for operation in operations:
            if operation is not AclOperation.ALL and operation not in _MEANINGFUL[kind]:
                known = ", ".join(name for name, each in _OPERATIONS.items() if each in _MEANINGFUL[kind])
                raise CliError(f"{operation.kafka_name} means nothing for a {kind.kafka_name}; these do: All, {known}")


def _named(
    topics: Sequence[str], groups: Sequence[str], transactional_ids: Sequence[str], cluster: bool
) -> list[Resource]:
    return [
        *((AclResourceType.TOPIC, name) for name in topics),
        *((AclResourceType.GROUP, name) for name in groups),
        *((AclResourceType.TRANSACTIONAL_ID, name) for name in transactional_ids),
        *(((AclResourceType.CLUSTER, CLUSTER_NAME),) if cluster else ()),
    ]


def _filter(kind: AclResourceType, name: str | None, style: AclPatternType, principal: str | None) -> Filter:
    return kind, name, style, principal, None, AclOperation.ANY, AclPermission.ANY


def _as_filter(wanted: Filter) -> dict[str, Any]:
    kind, name, style, principal, host, operation, permission = wanted
    return {
        "resource_type_filter": kind,
        "resource_name_filter": name,
        "pattern_type_filter": style,
        "principal_filter": principal,
        "host_filter": host,
        "operation": operation,
        "permission_type": permission,
    }


def _creation(acl: Acl) -> dict[str, Any]:
    kind, name, pattern, principal, host, operation, permission = acl
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": principal,
        "host": host,
        "operation": operation,
        "permission_type": permission,
    }


def _check(result: Any, what: str) -> None:
    """Raise CliError if the result has an error code."""
    if result.error_code is ErrorCode.security_disabled:
        raise CliError(f"{what}: authorizer.class.name is not set")
    check(result, what)


def _described(client: Gateways, filters: Iterable[Filter]) -> set[tuple[str, ...]]:
    """Return the rows of the ACLs that match. Raises CliError."""
    found: set[tuple[str, ...]] = set()
    for each in filters:
        response = client.request(*_DESCRIBE, _as_filter(each))
        _check(response, "ACLs cannot be listed")
        found |= {
            (
                AclResourceType(resource.resource_type).kafka_name,
                resource.resource_name,
                AclPatternType(resource.pattern_type).kafka_name,
                acl.principal,
                AclPermission(acl.permission_type).kafka_name,
                AclOperation(acl.operation).kafka_name,
                acl.host,
            )
            for resource in response.resources
            for acl in resource.acls
        }
    return found
