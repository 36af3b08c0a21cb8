"""Combines a property file, ``--set`` and flags into one validated configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import javaproperties

from muster.gateway.cli.errors import CliError

if TYPE_CHECKING:
    from muster.actors.config import MusterConfig


def read_config(file: Path | None, sets: tuple[str, ...], flags: Mapping[str, str | None]) -> MusterConfig:
    """Return the configuration; ``sets`` (PROPERTY=VALUE) override the file, ``flags`` (by property) override both.

    The flag ``port`` replaces the port in ``listeners``; 0 replaces all. Raises CliError naming every invalid property.
    """
    from muster.actors.config import ConfigError, MusterConfig  # it takes long, which --help need not
    from muster.actors.config.listeners import default_listeners

    properties = _read(file) if file else {}
    properties |= dict(_split(text) for text in sets)
    properties |= {name: value for name, value in flags.items() if value is not None and name != "port"}
    if (port := flags.get("port")) is not None:
        properties["listeners"] = _with_port(properties.get("listeners", default_listeners(properties)), port)
    try:
        return MusterConfig.from_properties(properties)
    except ConfigError as error:
        raise CliError(str(error)) from error


def _with_port(listeners: str, port: str) -> str:
    parts = listeners.split(",")
    if len(parts) > 1 and port != "0":
        raise CliError(f"--port {port} is for one listener, listeners={listeners} are {len(parts)}; write ports there")
    return ",".join(f"{part.rpartition(':')[0]}:{port}" for part in parts)


def _read(file: Path) -> dict[str, str]:
    try:
        return {name: value.strip() for name, value in javaproperties.loads(file.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError) as error:
        raise CliError(f"{file} is not a readable property file: {error}") from error


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise CliError(f"--set {text} is not PROPERTY=VALUE")
    return name.strip(), value.strip()
