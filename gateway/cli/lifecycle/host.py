"""Helpers for a host's start-up commands (see cluster.yaml). Run as ``python -m muster.gateway.cli.lifecycle.host``."""

from __future__ import annotations

import shlex

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.java import java_environment


@click.group()
def host() -> None:
    """Helpers for the start-up commands of a host."""


@host.command(epilog='Example: eval "$(python -m muster.gateway.cli.lifecycle.host java)"')
def java() -> None:
    """Print shell commands that set up a Java for Spark's workers in the environment."""
    for name, value in java_environment().items():
        terminal.for_shell(f"export {name}={shlex.quote(value)}")


if __name__ == "__main__":
    host()
