"""``muster user``: the users that may log in at listeners with a login."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.narrow import Column, Kind
from muster.actors.runtime.words import counted
from muster.gateway.cli.client.gateways import Gateways
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.login import current_security
from muster.gateway.cli.names import NAME
from muster.gateway.cli.numbers import Whole
from muster.gateway.cli.output import print_json, print_table, with_wide
from muster.gateway.cli.running import bootstrap_servers, by_bootstrap
from muster.gateway.cli.security.users import Users, UsersOfController, UsersOfFile, UsersOfGateway
from muster.gateway.cli.suggestions import Commands
from muster.gateway.security.credentials import MAX_NAME_CHARS
from muster.gateway.security.scram import DEFAULT_ITERATIONS, MAX_ITERATIONS, SCRAM_MECHANISMS

F = TypeVar("F", bound=Callable[..., Any])
_COLUMNS = (Column("USER", Kind.NAME), "MECHANISM", "ITERATIONS")


def _where(command: F) -> F:
    """Add the options that locate users, for :func:`_users`."""
    option = click.option(
        "--file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Use the file of sasl.credentials.file instead of ZooKeeper.",
    )
    return by_bootstrap(option(command))


@contextmanager
def _users(bootstrap_server: str | None, directory: Path, address: str | None, file: Path | None) -> Iterator[Users]:
    """Yield the users of a file; else in ZooKeeper: by Kafka's APIs where a server or a login is named, or through
    Ray."""
    is_served = bootstrap_server is not None or current_security() is not None
    if file is not None:
        if is_served:
            raise click.UsageError("--file goes without --bootstrap-server and --command-config.")
        yield UsersOfFile(file)
    elif is_served:
        with Gateways(bootstrap_servers(bootstrap_server, directory, address)) as gateway:
            yield UsersOfGateway(gateway)
    else:
        yield UsersOfController(directory, address)


@click.group(cls=Commands, epilog="Example: muster user add ann --command-config admin.properties")
def user() -> None:
    """List, add and remove users that may log in.

    They are in ZooKeeper, where kafka-configs and admin clients alter them, too. A new cluster has no users yet:
    without --bootstrap-server and --command-config, they are changed through Ray, without a login.
    """


@user.command("list", epilog="Example: muster user list --json")
@_where
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool, **where: Any) -> None:
    """Show the users, and their login mechanisms."""
    with _users(**where) as users:
        rows = [
            {"user": name, "mechanism": mechanism, "iterations": iterations}
            for name, held in sorted(users.found().items())
            for mechanism, iterations in sorted(held.items())
        ]
    if as_json:
        print_json(rows)
        return
    total = counted(len({row["user"] for row in rows}), "user") if rows else None
    print_table(_COLUMNS, [tuple(map(str, row.values())) for row in rows], total)
    if not rows:
        terminal.line("there are no users", err=True)


@user.command(epilog="Example: muster user add ann --password-file ann.password")
@click.argument("name", type=NAME)
@_where
@click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(SCRAM_MECHANISMS, case_sensitive=False),
    metavar="MECHANISM",
    help=f"{' or '.join(SCRAM_MECHANISMS)}; may be repeated. Default: both. PLAIN works with each.",
)
@click.option(
    "--iterations",
    type=Whole(DEFAULT_ITERATIONS, MAX_ITERATIONS),
    default=DEFAULT_ITERATIONS,
    show_default=True,
    help=f"How often SCRAM hashes the password, at most {MAX_ITERATIONS}.",
)
@click.option(
    "--password-file",
    type=click.File(encoding="utf-8"),
    help="File whose first line is the password; - is stdin. Without it, it is prompted for.",
)
@click.option("--password", type=NAME, help="Not recommended: visible to other users of this machine.")
def add(
    name: str, mechanisms: tuple[str, ...], iterations: int, password_file: Any, password: str | None, **where: Any
) -> None:
    """Let NAME log in with a password, or give it a new one. Salted hashes of it are stored.

    NAME can log in on all gateways when the command ends.
    """
    if not 0 < len(name) <= MAX_NAME_CHARS or not name.isprintable():
        raise CliError(f"a name has 1 to {MAX_NAME_CHARS} printable characters")
    secret = _password(password_file, password)
    with _users(**where) as users:
        users.set(name, secret, mechanisms or SCRAM_MECHANISMS, iterations)
    terminal.line(f"user {name} can log in", err=True)


def _password(file: Any, given: str | None) -> str:
    """Return the password. Raises CliError if it is empty."""
    if file is not None and given is not None:
        raise click.UsageError("--password-file and --password exclude each other.")
    try:
        password: str | None = file.readline().rstrip("\r\n") if file is not None else given
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"the password cannot be read from {file.name}") from error
    if password is None:
        password = str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True, type=NAME))
    if not password:
        raise CliError("the password is empty")
    return password


@user.command(epilog="Example: muster user remove ann")
@click.argument("name", type=NAME)
@_where
def remove(name: str, **where: Any) -> None:
    """Remove NAME, who can no longer log in. Open connections stay open until their sessions end."""
    with _users(**where) as users:
        users.remove(name)
    terminal.line(f"user {name} can no longer log in", err=True)
