"""Helpers for ``ray up`` (see cluster.yaml, deploy/). Run as ``python -m muster.gateway.cli.lifecycle.host``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
import yaml

from muster.actors.runtime import terminal
from muster.actors.runtime.java import java_environment
from muster.gateway.cli.ray.enlist import enlist_hosts
from muster.gateway.cli.suggestions import Commands


@click.group(cls=Commands)
def host() -> None:
    """Run the steps of Ray's cluster launcher."""


@host.command(epilog='Example: eval "$(python -m muster.gateway.cli.lifecycle.host java)"')
def java() -> None:
    """Print shell commands that set up a Java for Spark's workers in the environment."""
    for name, value in java_environment().items():
        terminal.for_shell(f"export {name}={shlex.quote(value)}")


@host.command(epilog="Run by cluster.yaml on the head, before it starts Ray.")
@click.argument("cluster_file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def enlist(cluster_file: Path) -> None:
    """Enter the hosts of CLUSTER_FILE in the list of Ray's autoscaler.

    The autoscaler reads the file again when it changes, but of the provider "local" it keeps the hosts with which it
    started: it would try to launch a host that was added, find none, and try again for ever.
    """
    enlist_hosts(yaml.safe_load(cluster_file.read_text()))


@host.command(epilog="Example: python -m muster.gateway.cli.lifecycle.host merge cluster.yaml aws.yaml")
@click.argument("base", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("changes", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def merge(base: Path, changes: Path) -> None:
    """Print the cluster configuration BASE with the keys of CHANGES, of which null removes one."""
    merged = merged_config(yaml.safe_load(base.read_text()), yaml.safe_load(changes.read_text()))
    terminal.for_shell(yaml.safe_dump(merged, sort_keys=False, width=120).rstrip())


def merged_config(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return ``base`` with the top-level keys of ``changes``; None removes one."""
    return {key: value for key, value in {**base, **changes}.items() if value is not None}


if __name__ == "__main__":
    host()
