"""Real clients on a whole Muster, beside a capture of the loopback interface; needs root."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.attribution.captured.capture import Capture, PacketsLost
from tests.attribution.captured.run import run
from tests.attribution.captured.scenarios import SCENARIOS
from tests.attribution.captured.streams import connections

pytestmark = pytest.mark.ring(name="operations")
SENT = bytes(range(256)) * 8_000


def send(server: socket.socket) -> None:
    with socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b"hello")
            assert accepted.recv(5) == b"hello"
            accepted.settimeout(10)
            got = 0
            client.setblocking(False)
            left = memoryview(SENT)
            while got < len(SENT):
                try:
                    left = left[accepted.send(left) if left else 0 :]
                    got += len(client.recv(1 << 20))
                except BlockingIOError:
                    continue


def test_a_capture_has_what_the_ports_were_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours, socket.create_server(("127.0.0.1", 0)) as others:
        port = ours.getsockname()[1]
        with Capture({port, 1}) as capture:
            for server in (ours, others, ours):
                send(server)
            found = connections(capture.stop(), {port})
    assert [(c.from_client.data, c.from_gateway.data, c.is_whole) for c in found] == [(b"hello", SENT, True)] * 2


class Slow(Capture):
    """It reads nothing until the end."""

    RECEIVE_BUFFER_BYTES = 4_096

    def _read(self) -> None:
        self._stopping.wait()
        super()._read()


def test_a_capture_that_lost_packets_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, Slow({server.getsockname()[1]}) as capture:
        send(server)
        with pytest.raises(PacketsLost):
            capture.stop()


def test_no_group_is_charged_for_what_another_client_got(tmp_path: Path) -> None:
    rows = run(SCENARIOS, tmp_path, print)
    assert {row.scenario.name: row.faults for row in rows} == {scenario.name: [] for scenario in SCENARIOS}
