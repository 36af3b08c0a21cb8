"""``muster user``: the users that may log in where ``sasl.enabled.mechanisms`` is set."""

from __future__ import annotations

from pathlib import Path

import click

from muster.actors.runtime import terminal
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import NAME
from muster.gateway.security.credentials import MAX_NAME_CHARS, CredentialsError, read, write
from muster.gateway.security.scram import DEFAULT_ITERATIONS, MAX_ITERATIONS, SCRAM_MECHANISMS, ScramCredential

_FILE = click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The file that sasl.credentials.file names.",
)


@click.group(epilog="Example: muster user add ann --file users.properties")
def user() -> None:
    """Add and remove users that may log in."""


@user.command(epilog="Example: muster user add ann --file users.properties")
@click.argument("name", type=NAME)
@_FILE
@click.option("--iterations", type=click.IntRange(DEFAULT_ITERATIONS, MAX_ITERATIONS), default=DEFAULT_ITERATIONS)
@click.password_option(type=NAME, help="Prompted for if not given; other users can see command lines.")
def add(name: str, file: Path, iterations: int, password: str) -> None:
    """Let NAME log in with a password. The file stores salted hashes; gateways read it at the next login."""
    if not 0 < len(name) <= MAX_NAME_CHARS or not name.isprintable() or not password:
        raise CliError(f"a name has 1 to {MAX_NAME_CHARS} printable characters, and a password at least one character")
    users = _read(file)
    try:
        users[name] = {one: ScramCredential.of_password(one, password, iterations) for one in SCRAM_MECHANISMS}
    except ValueError as error:
        raise CliError(f"that password cannot be used: {error}") from error
    _write(file, users)
    terminal.line(f"user {name} can log in", err=True)


@user.command(epilog="Example: muster user remove ann --file users.properties")
@click.argument("name", type=NAME)
@_FILE
def remove(name: str, file: Path) -> None:
    """Remove NAME, so that it can no longer log in. Open connections stay open."""
    users = _read(file)
    if users.pop(name, None) is None:
        raise CliError(f"{file} has no user {name}")
    _write(file, users)
    terminal.line(f"user {name} can no longer log in", err=True)


def _read(file: Path) -> dict[str, dict[str, ScramCredential]]:
    try:
        return read(file) if file.exists() else {}
    except CredentialsError as error:
        raise CliError(str(error)) from error


def _write(file: Path, users: dict[str, dict[str, ScramCredential]]) -> None:
    try:
        write(file, users)
    except OSError as error:
        raise CliError(f"{file} cannot be written: {error.strerror}") from error
