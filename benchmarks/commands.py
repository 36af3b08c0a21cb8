"""``python -m benchmarks commands``: what each command of ``muster`` takes, and how much it prints on 80 columns."""

from __future__ import annotations

import fcntl
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import click
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.cluster import Cluster, machine
from benchmarks.report import Figures, output, output_options
from muster.gateway.cli.main import cli

LIMIT_S, STATUS_LIMIT_S = 0.25, 0.5
_COLUMNS, _ROWS = 80, 40
_TOPIC, _GROUP, _PARTITIONS = "orders", "billing", 4
_KAFKA_S = 60.0
_OVER_HTTP_OR_KAFKA = (
    ("groups", "list"),
    ("groups", "lag"),
    ("groups", "describe", _GROUP),
    ("groups", "history", _GROUP),
    ("groups", "waiting"),
    ("topics", "list"),
    ("topics", "describe", _TOPIC),
    ("quotas", "list"),
    ("attribution-audit",),
    ("fault", "list"),
)
_OVER_RAY = (("mapping", "list"), ("user", "list"))
_FILES = (("audit-log",), ("tables", "list"), ("log", "verify"), ("doctor",))


class Run(NamedTuple):
    """One run of a command."""

    cpu_s: float
    """User and system."""
    lines: int
    exit_code: int


def measure(*arguments: str) -> Run:
    """Run ``muster`` with these arguments on a terminal of 80 columns."""
    terminal, end = os.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    command = [sys.executable, "-m", "muster.gateway.cli.main", *arguments]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": str(_COLUMNS)}
    process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=environment)
    os.close(end)
    printed = b""
    with suppress(OSError):  # EIO: the other end is closed
        while chunk := os.read(terminal, 1 << 16):
            printed += chunk
    os.close(terminal)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Run(used.ru_utime + used.ru_stime, printed.count(b"\n"), process.returncode)


@contextmanager
def _group(bootstrap: str) -> Iterator[None]:
    """Create a topic with records, and a group with one member that has read them."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.create_topics([NewTopic(_TOPIC, _PARTITIONS)])[_TOPIC].result(_KAFKA_S)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(100):
        producer.produce(_TOPIC, str(number).encode(), partition=number % _PARTITIONS)
    producer.flush(_KAFKA_S)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": _GROUP, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([_TOPIC])
        consumer.consume(100, _KAFKA_S)
        consumer.commit(asynchronous=False)
        yield
    finally:
        consumer.close()


def _add(figures: Figures, rounds: int, limit_s: float | None, *arguments: str, storage: Path) -> None:
    runs = [measure(*arguments, "--storage", str(storage)) for _ in range(rounds)]
    if failed := [run.exit_code for run in runs if run.exit_code]:
        raise click.ClickException(f"muster {' '.join(arguments)} ends with exit code {failed[0]}")
    cpu_s = min(run.cpu_s for run in runs)
    figures.add(" ".join(arguments), f"{runs[-1].lines} lines", cpu_s, "s", limit_s)


def _add_help(figures: Figures, rounds: int) -> None:
    took_s = {
        name: min(measure(name, "--help").cpu_s for _ in range(rounds))
        for name in cli.list_commands(click.Context(cli))
    }
    slowest = max(took_s, key=lambda name: took_s[name])
    median_s = statistics.median(took_s.values())
    figures.add("--help", f"median of {len(took_s)} commands", median_s, "s", LIMIT_S)
    figures.add("--help", f"the slowest, {slowest}", took_s[slowest], "s", LIMIT_S)


@click.command()
@click.option(
    "--rounds",
    default=5,
    show_default=True,
    type=click.IntRange(1),
    help="Of each command; the lowest, since what else runs on the cores only adds.",
)
@output_options
def main(rounds: int, json_file: Path | None, as_markdown: bool) -> None:
    """Measure the processor time and the lines of each command. Exit code 1 if a figure is above its limit."""
    about, figures = machine(), Figures()
    with (
        tempfile.TemporaryDirectory(prefix="muster-bench-") as name,
        Cluster(Path(name), gateways=2, properties={"fault.injection.enable": "true"}) as cluster,
        _group(cluster.bootstrap[0]),
    ):
        _add_help(figures, rounds)
        _add(figures, rounds, STATUS_LIMIT_S, "status", storage=cluster.storage)
        for arguments in _OVER_HTTP_OR_KAFKA:
            _add(figures, rounds, LIMIT_S, *arguments, storage=cluster.storage)
        for arguments in (*_FILES, *_OVER_RAY):
            _add(figures, rounds, None, *arguments, storage=cluster.storage)
    output(figures, about, json_file, as_markdown)
    sys.exit(0 if figures.met else 1)
