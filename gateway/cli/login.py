"""``--command-config``: how Muster's own commands log in to gateways that require it; a file as Kafka's tools take."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import javaproperties

from muster.gateway.cli.errors import CliError
from muster.gateway.security.mechanisms import MECHANISMS

_META = f"{__name__}.login"
_JAAS = re.compile(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Login:
    mechanism: str
    user: str
    password: str

    def librdkafka(self) -> dict[str, str]:
        """As confluent-kafka takes it."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.user,
            "sasl.password": self.password,
        }


def with_login(command: F) -> F:
    """Option ``--command-config``, for :func:`current_login`."""
    return click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Property file with sasl.mechanism and sasl.jaas.config, or sasl.username and sasl.password.",
        expose_value=False,
        callback=_keep,
    )(command)


def current_login() -> Login | None:
    """The login of the running command."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(_META)


def read_login(file: Path) -> Login | None:
    """None if the file says PLAINTEXT, or nothing. Raises CliError."""
    try:
        content = javaproperties.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CliError(f"{file} is not a readable property file: {error}") from error
    properties = {name: value.strip() for name, value in content.items()}
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol == "PLAINTEXT":
        return None
    mechanism = properties.get("sasl.mechanism", "").upper()
    if protocol != "SASL_PLAINTEXT" or mechanism not in MECHANISMS:
        raise CliError(
            f"{file}: set security.protocol=SASL_PLAINTEXT and sasl.mechanism, one of {', '.join(MECHANISMS)}"
        )
    jaas = {
        name: re.sub(r"\\(.)", r"\1", value) for name, value in _JAAS.findall(properties.get("sasl.jaas.config", ""))
    }
    user = properties.get("sasl.username", jaas.get("username"))
    password = properties.get("sasl.password", jaas.get("password"))
    if not user or not password:
        raise CliError(f"{file}: set sasl.username and sasl.password, or both in sasl.jaas.config")
    return Login(mechanism, user, password)


def _keep(context: click.Context, _: click.Parameter, file: Path | None) -> None:
    if file is not None:
        context.meta[_META] = read_login(file)
