"""``muster topics produce`` and ``muster topics tail``: messages from a shell, without another client."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import click
from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from muster.actors.runtime import terminal
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.kafka import (
    EARLIEST,
    LATEST,
    TIMEOUT_S,
    admin,
    client_of,
    end_offsets,
    metadata,
    partitions_of,
    refused,
    text_of,
)
from muster.gateway.cli.names import NAME
from muster.gateway.cli.numbers import Whole
from muster.gateway.cli.output import bytes_as_json, counted, print_json
from muster.gateway.cli.running import bootstrap_servers, by_bootstrap

_POLL_S = 0.5
_SEND_TIMEOUT_MS = 30_000


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
    if sys.stdin is None:
        raise CliError("stdin is closed; messages are its lines")
    separator = None if key_separator is None else key_separator.encode()
    if separator == b"":
        raise CliError("--key-separator is empty")
    sent = _Sent(topic, -1 if partition is None else partition, [_header(text) for text in headers])
    producer = client_of(
        Producer,
        bootstrap_servers(bootstrap_server, directory, address),
        max_in_flight=1,  # keeps the order of lines, and needs no producer id, for which there may be no right
        partitioner="murmur2_random",
        delivery_timeout_ms=_SEND_TIMEOUT_MS,
    )
    if sys.stdin.isatty():
        terminal.line("each line is a message; Ctrl-D ends", err=True)
    try:
        for number, line in enumerate(sys.stdin.buffer, 1):
            key, value = _split(line.removesuffix(b"\n"), separator, number)
            sent.send(producer, key, value)
            if sent.error is not None:
                break
    finally:
        while producer.flush(_POLL_S):
            pass
        terminal.line(f"{counted(sent.acknowledged, 'message')} acknowledged", err=True)
    if sent.error is not None:
        failed = counted(sent.failed, "message")
        raise CliError(f"{failed} not acknowledged by {topic}: {sent.reason(producer)}")


class _Sent:
    """Messages of one command, and their fate."""

    def __init__(self, topic: str, partition: int, headers: list[tuple[str, bytes]]) -> None:
        self.topic, self.partition, self.headers = topic, partition, headers
        self.acknowledged = self.failed = 0
        self.error: KafkaError | None = None
        """The first one."""

    def send(self, producer: Producer, key: bytes | None, value: bytes) -> None:
        """Return once librdkafka has the message. Raises CliError."""
        while True:
            try:
                producer.produce(
                    self.topic,
                    value,
                    key,
                    self.partition,
                    headers=list(self.headers),
                    on_delivery=self._delivered,
                )
                producer.poll(0)
                return
            except BufferError:
                producer.poll(_POLL_S)
            except KafkaException as error:
                self._delivered(error.args[0], None)
                return

    def reason(self, producer: Producer) -> str:
        """Return the text of the first error; the broker's, where librdkafka knew before that the topic has one."""
        error = self.error
        if error is not None and error.code() == KafkaError._UNKNOWN_TOPIC:
            with refused(f"{self.topic} cannot be looked up"):
                error = producer.list_topics(self.topic, TIMEOUT_S).topics[self.topic].error or error
        return text_of(KafkaException(error))

    def _delivered(self, error: KafkaError | None, _: Message | None) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed += 1
            self.error = self.error or error


def _split(line: bytes, separator: bytes | None, number: int) -> tuple[bytes | None, bytes]:
    if separator is None:
        return None, line
    key, found, value = line.partition(separator)
    if not found:
        raise CliError(f"line {number} has no key separator {separator.decode()}")
    return key, value


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CliError(f"--header {text} is not NAME=VALUE")
    return name, value.encode()


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
    bootstrap = bootstrap_servers(bootstrap_server, directory, address)
    client = admin(bootstrap)
    partitions = sorted(partitions_of(metadata(client), topic))
    if partition is not None and partition not in partitions:
        raise CliError(f"topic {topic} has {counted(len(partitions), 'partition')}, from 0; there is no {partition}")
    read = partitions if partition is None else [partition]
    start = end_offsets(client, topic, read, EARLIEST if from_beginning else LATEST)
    # librdkafka has no consumer without a group id, and looks for the group's coordinator without joining. By default
    # it would skip to the end of the log if the next message has been deleted.
    consumer = client_of(
        Consumer, bootstrap, group_id="muster-cli", enable_auto_commit=False, auto_offset_reset="error"
    )
    try:
        consumer.assign([TopicPartition(topic, index, offset) for index, offset in start.items()])
        terminal.line(f"waiting for messages of {topic}; Ctrl-C ends", err=True)
        with suppress(KeyboardInterrupt) if count is None else nullcontext():
            for message in islice(_messages(consumer, topic), count):
                _show(message, as_json=as_json)
    finally:
        consumer.close()


def _messages(consumer: Consumer, topic: str) -> Iterator[Message]:
    """Yield messages without end. Raises CliError if the topic cannot be read any longer."""
    while True:
        message = consumer.poll(_POLL_S)
        if message is None:
            continue
        error = message.error()
        if error is None:
            yield message
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise CliError(
                f"{topic}-{message.partition()} no longer has the next message: deleted before it could be shown; "
                "--from-beginning shows those that are left"
            )
        elif message.topic() is not None:  # the others are about the group, of which nothing is needed
            raise CliError(f"topic {topic} cannot be read: {text_of(KafkaException(error))}")


def _show(message: Message, *, as_json: bool) -> None:
    value = message.value()
    if not as_json:
        terminal.line("null" if value is None else value.decode(errors="backslashreplace"))
        return
    kind, timestamp_ms = message.timestamp()
    headers: Any = message.headers() or []
    print_json(
        {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
            "key": bytes_as_json(message.key()),
            "headers": [[name, bytes_as_json(content)] for name, content in headers],
            "value": bytes_as_json(value),
        },
        indent=None,
    )
