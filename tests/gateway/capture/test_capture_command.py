"""``muster capture`` as a process, with real clients on either side."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from muster.actors.wire.kafka import codec
from pytest_muster.bound import bound
from tests.gateway.real_clients import reachable
from tests.gateway.serving import Serving

PROPERTIES = {"group.initial.rebalance.delay.ms": "0"}
WAIT_S = 20.0


class Capturing:
    def __init__(self, to: str, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "muster.gateway.cli.main", "capture", "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            bound([*command, "--to", to, "--out", str(folder), *options]),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        found = re.fullmatch(r"muster capture ready bootstrap=(127\.0\.0\.1:\d+)\n", ready)
        assert found is not None, ready
        self.bootstrap = found[1]

    def stop(self) -> tuple[int, str, str]:
        """Exit code, stdout after the first line, and stderr."""
        self.process.send_signal(signal.SIGINT)
        said, complained = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, said, complained


@pytest.fixture
def start() -> Iterator[Callable[..., Capturing]]:
    running: list[Capturing] = []

    def begin(to: str, folder: Path, *options: str) -> Capturing:
        running.append(Capturing(to, folder, *options))
        return running[-1]

    yield begin
    for each in running:
        each.process.kill()
        each.process.communicate()


def produce_and_consume(bootstrap: str, topic: str, group: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": group})
    producer.produce(topic, b"hello")
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(WAIT_S)
    assert message is not None
    assert message.value() == b"hello"
    consumer.commit(asynchronous=False)
    consumer.close()


def test_clients_stay_on_the_proxy_and_their_frames_are_written(
    full: Serving, fresh: Callable[[str], str], tmp_path: Path, start: Callable[..., Capturing]
) -> None:
    topic, folder = fresh("topic"), tmp_path / "frames"
    full.create(topic)
    with reachable(full) as bootstrap:
        capturing = start(bootstrap, folder, "--each", "3")
        brokers = AdminClient({"bootstrap.servers": capturing.bootstrap}).list_topics(timeout=WAIT_S).brokers
        assert [f"{broker.host}:{broker.port}" for broker in brokers.values()] == [capturing.bootstrap]
        produce_and_consume(capturing.bootstrap, topic, fresh("group"))
    code, said, complained = capturing.stop()
    files = sorted(folder.glob("*.hex"))
    assert (code, complained) == (0, "")
    assert said == f"{len(files)} frames in {folder}\n"
    names = [re.fullmatch(r"confluent-kafka-python-(\w+)-v(\d+)-(\d+)-(request|response)", file.stem) for file in files]
    assert all(names)
    apis = {name[1] for name in names if name is not None}
    assert {"ApiVersions", "Metadata", "Produce", "JoinGroup", "SyncGroup", "Fetch", "OffsetCommit"} <= apis
    for file, name in zip(files, names, strict=True):
        frame = bytes.fromhex(file.read_text())
        assert name is not None
        if name[4] == "request":
            header = codec.decode_header(frame)
            assert (codec.api_name(header.api_key), str(header.api_version)) == (name[1], name[2])


def test_traffic_goes_on_when_the_disk_refuses(
    full: Serving, fresh: Callable[[str], str], tmp_path: Path, start: Callable[..., Capturing]
) -> None:
    topic, folder = fresh("topic"), tmp_path / "frames"
    full.create(topic)
    with reachable(full) as bootstrap:
        capturing = start(bootstrap, folder)
        folder.rmdir()
        produce_and_consume(capturing.bootstrap, topic, fresh("group"))
    code, said, complained = capturing.stop()
    assert (code, said) == (1, f"0 frames in {folder}\n")
    warning, error = complained.splitlines()
    assert "a frame is not recorded" in warning
    assert re.fullmatch(rf"muster: \d+ frames could not be written to {folder}", error)


def refused(tmp_path: Path, *options: str) -> str:
    """Return the one line with the reason."""
    given = dict(zip(options[::2], options[1::2], strict=True))
    arguments = {"--listen": "127.0.0.1:0", "--to": "127.0.0.1:1", "--out": str(tmp_path / "frames"), **given}
    command = [sys.executable, "-m", "muster.gateway.cli.main", "capture"]
    done = subprocess.run(
        [*command, *(word for pair in arguments.items() for word in pair)],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert (bool(done.returncode), done.stdout) == (True, "")
    (line,) = done.stderr.splitlines()
    return line


def test_what_cannot_be(tmp_path: Path) -> None:
    assert "--listen 9092 is not HOST:PORT" in refused(tmp_path, "--listen", "9092")
    assert "broker is not HOST:PORT" in refused(tmp_path, "--to", "broker")
    assert "names no broker" in refused(tmp_path, "--to", ",")
    (tmp_path / "file").touch()
    assert "is a file" in refused(tmp_path, "--out", str(tmp_path / "file"))
    assert "/proc/frames cannot be written" in refused(tmp_path, "--out", "/proc/frames")
    (tmp_path / "earlier").mkdir()
    (tmp_path / "earlier" / "c-Fetch-v4-001-request.hex").touch()
    assert "has frames of another capture" in refused(tmp_path, "--out", str(tmp_path / "earlier"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port} cannot be listened on" in refused(tmp_path, "--listen", f"127.0.0.1:{port}")
