"""``--command-config``, which :mod:`muster.gateway.client.security` reads if it is given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from muster.gateway.client.security import Security

_META = f"{__name__}.security"
F = TypeVar("F", bound=Callable[..., Any])


def with_login(command: F) -> F:
    """Add the option ``--command-config``, for :func:`current_security`."""
    return click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Property file with security.protocol and, as it requires, sasl.mechanism, sasl.jaas.config, "
        "ssl.truststore.location (or ssl.ca.location) and ssl.keystore.location.",
        expose_value=False,
        callback=_keep,
    )(command)


def current_security() -> Security | None:
    """Return how the running command reaches gateways; None: without anything."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(_META)


def _keep(context: click.Context, _: click.Parameter, file: Path | None) -> None:
    if file is not None:
        from muster.gateway.client.security import read_security  # it takes long, and few commands have the option

        context.meta[_META] = read_security(file)
