"""What the start-up commands of a host need (see cluster.yaml). Run as ``python -m gateway.cli.host``."""

from __future__ import annotations

import os
import shlex
import time

import click

from actors import terminal
from actors.java import java_environment

_PAUSE_S = 1.0


@click.group()
def host() -> None:
    """Help for the start-up commands of a host."""


@host.command(epilog='Example: eval "$(python -m gateway.cli.host java)"')
def java() -> None:
    """Print shell commands that put a Java for Spark's workers into the environment."""
    for name, value in java_environment().items():
        terminal.for_shell(f"export {name}={shlex.quote(value)}")


@host.command("wait-for-nodes", epilog="Example: python -m gateway.cli.host wait-for-nodes 3")
@click.argument("nodes", type=int)
@click.option("--timeout", "timeout_s", type=float, default=300.0, show_default=True, help="Seconds to wait.")
def wait_for_nodes(nodes: int, timeout_s: float) -> None:
    """Wait until the Ray cluster of this host has NODES nodes; fewer after the timeout are good enough."""
    from gateway.cli.own_ray import connect

    connect("auto", os.environ.get("RAY_AUTH_TOKEN_PATH"))
    import ray

    until = time.monotonic() + timeout_s
    while (alive := sum(node["Alive"] for node in ray.nodes())) < nodes:  # type: ignore[no-untyped-call]
        if time.monotonic() > until:
            terminal.line(f"{alive} of {nodes} nodes after {timeout_s:g} s; going on with them", err=True)
            return
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    host()
