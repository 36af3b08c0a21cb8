"""``muster topics produce`` and ``muster topics tail``: messages from a shell, without another client."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.words import counted
from muster.gateway.cli.client.cluster import admin, end_offsets, partitions_of
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import NAME
from muster.gateway.cli.numbers import Whole
from muster.gateway.cli.output import bytes_as_json, print_json
from muster.gateway.cli.running import bootstrap_servers, by_bootstrap
from muster.gateway.client.errors import MusterError
from muster.gateway.client.kafka.requests import EARLIEST, LATEST, metadata

if TYPE_CHECKING:
    from muster.gateway.cli.client.producer import Message
    from muster.gateway.cli.client.reader import Received

_READ_BYTES, _MAX_LINE_BYTES = 1 << 16, 256 << 20


@click.command(epilog="Example: muster topics produce greetings <<< hello")
@click.argument("topic", type=NAME)
@by_bootstrap
@click.option("--key-separator", type=NAME, metavar="TEXT", help="Separator between key and value in each line.")
@click.option("--header", "headers", multiple=True, type=NAME, metavar="NAME=VALUE", help="Give each message a header.")
@click.option("--partition", type=Whole(0), help="Send to this partition. Default: by the key, or any.")
def produce(
    topic: str,
    bootstrap_server: str | None,
    directory: Path,
    address: str | None,
    key_separator: str | None,
    headers: tuple[str, ...],
    partition: int | None,
) -> None:
    """Send each line of stdin to TOPIC, as one message, and wait until all are acknowledged.

    Keys choose partitions as in Kafka's own producer. The topic is created if auto.create.topics.enable is true.
    """
    from muster.gateway.cli.client.producer import Producer  # it takes long

    if sys.stdin is None:
        raise CliError("stdin is closed; messages are its lines")
    separator = None if key_separator is None else key_separator.encode()
    if separator == b"":
        raise CliError("--key-separator is empty")
    given = tuple(map(_header, headers))
    client = admin(bootstrap_servers(bootstrap_server, directory, address))
    producer = Producer(client, topic, partition, given)
    if sys.stdin.isatty():
        terminal.line("each line is a message; Ctrl-D ends", err=True)
    try:
        for batch in _batches(sys.stdin.buffer, separator):
            producer.send(batch)
            if producer.error is not None:
                break
    finally:
        terminal.line(f"{counted(producer.acknowledged, 'message')} acknowledged", err=True)
    if producer.error is not None:
        raise CliError(f"{counted(producer.failed, 'message')} not acknowledged by {topic}: {producer.error}")


def _batches(stdin: IO[bytes], separator: bytes | None) -> Iterator[list[Message]]:
    """Yield the messages that can be read without waiting for more, again and again. Raises CliError."""
    numbers = itertools.count(1)
    for lines in _lines(stdin):
        batch: list[Message] = []
        for line in lines:
            try:
                batch.append(_split(line, separator, next(numbers)))
            except MusterError:
                if batch:
                    yield batch
                raise
        yield batch


def _lines(stdin: IO[bytes]) -> Iterator[list[bytes]]:
    """Yield the whole lines of each read, without their ends; at last what has none. Raises CliError."""
    begun: list[bytes] = []
    begun_bytes = 0
    while data := stdin.read1(_READ_BYTES):  # type: ignore[attr-defined]
        whole, newline, rest = data.rpartition(b"\n")
        if newline:
            yield b"".join((*begun, whole)).split(b"\n")
            begun, begun_bytes = [], 0
        begun.append(rest)
        begun_bytes += len(rest)
        if begun_bytes > _MAX_LINE_BYTES:
            raise CliError(f"a line has more than {_MAX_LINE_BYTES >> 20} MiB")
    if last := b"".join(begun):
        yield [last]


def _split(line: bytes, separator: bytes | None, number: int) -> tuple[bytes | None, bytes]:
    if separator is None:
        return None, line
    key, found, value = line.partition(separator)
    if not found:
        raise CliError(f"line {number} has no key separator {separator.decode()}")
    return key, value


def _header(text: str) -> tuple[bytes, bytes]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CliError(f"--header {text} is not NAME=VALUE")
    return name.encode(), value.encode()


@click.command(epilog="Example: muster topics tail greetings --from-beginning --count 10")
@click.argument("topic", type=NAME)
@by_bootstrap
@click.option("--from-beginning", is_flag=True, help="Begin with the first message. Default: those from now on.")
@click.option("--count", type=Whole(1), help="End after so many messages. Default: at Ctrl-C.")
@click.option("--partition", type=Whole(0), help="Show only messages of this partition.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with keys and headers, one message on each line.")
def tail(
    topic: str,
    bootstrap_server: str | None,
    directory: Path,
    address: str | None,
    from_beginning: bool,
    count: int | None,
    partition: int | None,
    as_json: bool,
) -> None:
    """Show the values of messages of TOPIC as they come. No group is joined, and nothing is committed.

    Each value is one line. With --json, bytes that are not UTF-8 are {"base64": ...}, and timestamps are in ms since
    the epoch.
    """
    from muster.gateway.cli.client.reader import messages  # it takes long

    client = admin(bootstrap_servers(bootstrap_server, directory, address))
    partitions = sorted(partitions_of(metadata(client), topic))
    if partition is not None and partition not in partitions:
        raise CliError(f"topic {topic} has {counted(len(partitions), 'partition')}, from 0; there is no {partition}")
    read = partitions if partition is None else [partition]
    start = end_offsets(client, topic, read, EARLIEST if from_beginning else LATEST)
    terminal.line(f"waiting for messages of {topic}; Ctrl-C ends", err=True)
    with suppress(KeyboardInterrupt) if count is None else nullcontext():
        for message in islice(messages(client, topic, start), count):
            _show(topic, message, as_json=as_json)


def _show(topic: str, message: Received, *, as_json: bool) -> None:
    record = message.record
    if not as_json:
        terminal.line("null" if record.value is None else record.value.decode(errors="backslashreplace"))
        return
    print_json(
        {
            "topic": topic,
            "partition": message.partition,
            "offset": record.offset,
            "timestamp": message.timestamp_ms,
            "key": bytes_as_json(record.key),
            "headers": [[name.decode(errors="replace"), bytes_as_json(content)] for name, content in record.headers],
            "value": bytes_as_json(record.value),
        },
        indent=None,
    )
