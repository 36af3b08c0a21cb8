"""``muster token``: bearer tokens of the HTTP port."""

from __future__ import annotations

from pathlib import Path

import click

from muster.actors.runtime import terminal
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import NAME
from muster.gateway.cli.suggestions import Commands
from muster.gateway.security.files import PropertyFileError
from muster.gateway.security.tokens import MAX_NAME_CHARS, hash_of, new_token, read, write

_FILE = click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The file that http.tokens.file names.",
)


@click.group(cls=Commands, epilog="Example: muster token add prometheus --file tokens.properties")
def token() -> None:
    """Add and remove bearer tokens of the HTTP port."""


@token.command(epilog="Example: muster token add prometheus --file tokens.properties > prometheus.token")
@click.argument("name", type=NAME)
@_FILE
def add(name: str, file: Path) -> None:
    """Write a new token for NAME to stdout; the file gets its hash.

    A request with it has the principal User:NAME. Earlier tokens of NAME stay valid until they are removed.
    """
    if not 0 < len(name) <= MAX_NAME_CHARS or not name.isprintable():
        raise CliError(f"a name has 1 to {MAX_NAME_CHARS} printable characters")
    users, made = _read(file), new_token()
    users[name] = (*users.get(name, ()), hash_of(made))
    _write(file, users)
    terminal.line(made)


@token.command(epilog="Example: muster token remove prometheus --file tokens.properties")
@click.argument("name", type=NAME)
@_FILE
def remove(name: str, file: Path) -> None:
    """Remove all tokens of NAME."""
    users = _read(file)
    if users.pop(name, None) is None:
        raise CliError(f"{file} has no token of {name}")
    _write(file, users)
    terminal.line(f"{name} has no token any more", err=True)


def _read(file: Path) -> dict[str, tuple[str, ...]]:
    try:
        return read(file) if file.exists() else {}
    except PropertyFileError as error:
        raise CliError(str(error)) from error


def _write(file: Path, users: dict[str, tuple[str, ...]]) -> None:
    try:
        write(file, users)
    except OSError as error:
        raise CliError(f"{file} cannot be written: {error.strerror}") from error
