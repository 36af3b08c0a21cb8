"""``python -m muster.gateway.console --gateway http://HOST:PORT``: the console in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import click

from muster.gateway.console.api import Gateways
from muster.gateway.console.app import serve


@click.command()
@click.option("--gateway", "gateways", multiple=True, required=True, help="URL of a gateway's HTTP port; repeatable.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=9600, show_default=True, help="Port to listen on.")
@click.option("--allow-host", "hosts", multiple=True, help="Name by which browsers reach it; repeatable.")
def main(gateways: tuple[str, ...], host: str, port: int, hosts: tuple[str, ...]) -> None:
    """Serve the console of a cluster until it is interrupted."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(Gateways(gateways), host, port, hosts=hosts))


if __name__ == "__main__":
    main()
