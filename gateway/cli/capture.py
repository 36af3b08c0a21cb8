"""``muster capture``: a proxy that records the traffic between Kafka clients and brokers."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.words import counted
from muster.gateway.capture.advertised import Address
from muster.gateway.capture.proxy import CaptureProxy
from muster.gateway.capture.recorder import SECRET_APIS, Limits, Recorder
from muster.gateway.cli.client.gateways import addresses
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import NAME
from muster.gateway.cli.numbers import Whole
from muster.placement.host_port import host_port

_SECRETS = f"{', '.join(list(SECRET_APIS.values())[:-1])} and {list(SECRET_APIS.values())[-1]}"


@click.command(
    epilog="Example: muster capture --listen 127.0.0.1:9192 --to localhost:9092 --out frames",
    help=f"""Relay Kafka connections to a broker, Muster or Kafka, and write each request and response to a file.

    Point the clients' bootstrap.servers at --listen. Bytes go through as they come, but for the addresses of brokers
    in answers: each broker has a port of the proxy, counted up from that of --listen, so that clients stay on it.
    It prints "muster capture ready bootstrap=HOST:PORT[,...]" and relays until SIGINT or SIGTERM.

    DIR/CLIENT-API-vN-NNN-request.hex has the frame of a request without its size, in hexadecimal digits, and
    ...-response.hex with the same NNN its answer as the broker sent it. CLIENT is the software's name as ApiVersions
    says it, or else the client.id. Records, names and configs are in the files. {_SECRETS} are not written, nor what
    comes after a SaslHandshake of version 0. Of connections with TLS nothing is written, and they do not stay on the
    proxy.

    Traffic never waits for the disk: frames that it refuses are counted, and the exit code is then 1.
    """,
)
@click.option(
    "--listen",
    type=NAME,
    metavar="HOST:PORT",
    default="127.0.0.1:9192",
    show_default=True,
    help="Port 0 picks a free port.",
)
@click.option("--to", "bootstrap", type=NAME, metavar="HOST:PORT[,...]", required=True, help="The brokers.")
@click.option(
    "--out",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Directory for the files; created if missing.",
)
@click.option(
    "--max-frames",
    type=Whole(1),
    default=1000,
    show_default=True,
    help="Maximum number of files; later frames are only relayed.",
)
@click.option(
    "--max-frame-bytes",
    type=Whole(1),
    default=65_536,
    show_default=True,
    help="Larger frames are relayed but not written.",
)
@click.option("--each", type=Whole(1), help="Maximum frames per client, API and version. Default: all.")
def capture(listen: str, bootstrap: str, folder: Path, max_frames: int, max_frame_bytes: int, each: int | None) -> None:
    """Run the proxy. Help is in the decorator, since it names the APIs that are left out."""
    brokers = list(addresses(bootstrap))
    if not brokers:
        raise CliError(f"--to {bootstrap} names no broker")
    host, port = _listening(listen)
    _prepare(folder)
    recorder = Recorder(folder, Limits(max_frames, max_frame_bytes, each))
    try:
        asyncio.run(_serve(host, port, brokers, recorder))
    finally:
        recorder.stop()
    terminal.line(f"{counted(recorder.written, 'frame')} in {folder}{_left_out(recorder)}")
    if recorder.lost:
        raise CliError(f"{counted(recorder.lost, 'frame')} could not be written to {folder}")


async def _serve(host: str, port: int, brokers: list[Address], recorder: Recorder) -> None:
    """Serve until SIGINT or SIGTERM. Raises CliError if it cannot listen."""
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    proxy = CaptureProxy(host, port, recorder)
    try:
        try:
            ours = [await proxy.listen(broker) for broker in brokers]
        except OSError as error:
            where = host_port(host, port)
            raise CliError(
                f"{where} cannot be listened on: {error.strerror or error}; choose another --listen"
            ) from error
        terminal.line(f"muster capture ready bootstrap={','.join(host_port(*each) for each in ours)}")
        await stopping.wait()
    finally:
        await proxy.stop()


def _listening(text: str) -> Address:
    """Parse host, which may be empty for all interfaces, and port. Raises CliError."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) >= 1 << 16:
        raise CliError(f"--listen {text} is not HOST:PORT")
    return host.strip("[]"), int(port)


def _prepare(folder: Path) -> None:
    """Create the folder. Raises CliError if it is not writable, or has frames of an earlier capture."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if next(folder.glob("*.hex"), None) is not None:
            raise CliError(f"{folder} has frames of another capture; choose another --out")
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise CliError(f"{folder} cannot be written: {error.strerror}; choose another --out") from error


def _left_out(recorder: Recorder) -> str:
    parts = []
    if recorder.too_large:
        parts.append(f"{recorder.too_large} larger than {recorder.limits.max_frame_bytes} bytes")
    if recorder.secret:
        parts.append(f"{counted(recorder.secret, 'exchange')} with secrets")
    return f"; left out: {', '.join(parts)}" if parts else ""
