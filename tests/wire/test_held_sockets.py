"""Listening sockets that outlive the process of their gateway."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import pytest

from muster.actors.wire.sockets.held import HeldSockets, listening_sockets
from muster.actors.wire.sockets.holder import SocketHolder
from muster.actors.wire.sockets.passing import Held, close_all, receive
from tests.zookeeper_fixture import eventually

SECRET = b"secret"
NAME = "gateway-1"
HOST = "127.0.0.1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holder.sock"


@pytest.fixture
def holder(path: Path) -> Iterator[SocketHolder]:
    holder = SocketHolder(path, SECRET)
    holder.start()
    yield holder
    holder.stop()


async def _serve(path: Path, secret: bytes, ready: Pipe) -> None:
    """Run a gateway's process: report its port once the sockets are held, and greet who connects."""
    held = HeldSockets(lambda: path.parent.glob("*.sock"), secret, NAME)
    await held.fetch()
    (listening,) = held.listen("kafka", HOST, 0)

    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    await asyncio.start_server(greet, sock=listening)
    held.hold()
    ready.send(listening.getsockname()[1])
    if await asyncio.to_thread(ready.recv) == "release":
        await held.release()
        ready.send("released")
        await asyncio.Event().wait()


def _main(path: Path, secret: bytes, ready: Pipe) -> None:
    asyncio.run(_serve(path, secret, ready))


class Gateway:
    """The process of a gateway."""

    def __init__(self, path: Path, secret: bytes = SECRET) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_main, args=(path, secret, theirs), daemon=True)
        self._process.start()
        self.port: int = self.pipe.recv()

    def kill(self) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.join()


def greeted(port: int) -> bytes:
    with socket.create_connection((HOST, port), timeout=20) as connection:
        return connection.recv(5)


def is_refused(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=20).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # it was being made as the socket was closed
        return False
    return False


def is_held(holder: SocketHolder) -> bool:
    return NAME in holder._held


def test_who_connects_while_a_gateway_is_dead_is_served_by_its_next_process(path: Path, holder: SocketHolder) -> None:
    first = Gateway(path)
    assert greeted(first.port) == b"hello"
    eventually(lambda: is_held(holder), "the sockets are held")
    first.kill()
    with closing(socket.create_connection((HOST, first.port), timeout=20)) as waiting:
        second = Gateway(path)
        assert second.port == first.port, "although the port was 0"
        assert waiting.recv(5) == b"hello"
    second.kill()


class Accepting:
    """Gets the sockets of dead gateways."""

    holder: SocketHolder

    def __init__(self) -> None:
        self.called: list[str] = []
        self.sockets: list[Held] = []
        self.has_begun = threading.Event()

    def begin(self, name: str, sockets: list[Held]) -> None:
        self.called.append(f"begin {name}")
        self.sockets += sockets
        self.has_begun.set()

    def end(self, name: str) -> None:
        self.called.append(f"end {name}")
        close_all(each for _, each in self.sockets)
        self.sockets.clear()
        self.has_begun.clear()


@pytest.fixture
def accepting(path: Path) -> Iterator[Accepting]:
    accepting = Accepting()
    accepting.holder = holder = SocketHolder(path, SECRET, accepting=accepting)
    holder.start()
    yield accepting
    holder.stop()


def _accepted(accepting: Accepting, port: int) -> str:
    """Has a client connect, and accepts it as the standby of the gateway would. Returns the key of the socket."""
    assert accepting.has_begun.wait(20)
    ((key, listening),) = accepting.sockets
    listening.settimeout(20)
    with closing(socket.create_connection((HOST, port), timeout=20)):
        listening.accept()[0].close()
    return key


def test_clients_of_a_dead_gateway_are_accepted_until_its_next_process_has_the_sockets(
    path: Path, accepting: Accepting
) -> None:
    first = Gateway(path)
    eventually(lambda: is_held(accepting.holder), "the sockets are held")
    first.kill()
    assert _accepted(accepting, first.port) == f"kafka {HOST}:0"
    second = Gateway(path)
    assert accepting.called == [f"begin {NAME}", f"end {NAME}"]
    assert greeted(second.port) == b"hello"
    eventually(lambda: is_held(accepting.holder), "the sockets are held")
    second.kill()
    assert _accepted(accepting, second.port)


def test_a_gateway_that_stops_is_not_accepted_for(path: Path, accepting: Accepting) -> None:
    gateway = Gateway(path)
    gateway.pipe.send("release")
    assert gateway.pipe.recv() == "released"
    gateway.kill()
    assert is_refused(gateway.port)
    assert accepting.called == []


def test_nothing_is_accepted_for_a_gateway_that_does_not_return(path: Path) -> None:
    accepting = Accepting()
    holder = SocketHolder(path, SECRET, accepting=accepting, keep_s=0.3)
    holder.start()
    gateway = Gateway(path)
    eventually(lambda: is_held(holder), "the sockets are held")
    gateway.kill()
    assert accepting.has_begun.wait(20)
    eventually(lambda: is_refused(gateway.port), "the sockets are closed")
    assert accepting.called[-1] == f"end {NAME}"
    holder.stop()


def test_a_gateway_that_stops_leaves_no_socket_behind(path: Path, holder: SocketHolder) -> None:
    gateway = Gateway(path)
    eventually(lambda: is_held(holder), "the sockets are held")
    gateway.pipe.send("release")
    assert gateway.pipe.recv() == "released"
    gateway.kill()
    assert is_refused(gateway.port)


def test_a_gateway_that_does_not_return_refuses_clients_after_a_while(path: Path) -> None:
    holder = SocketHolder(path, SECRET, keep_s=0.3)
    holder.start()
    gateway = Gateway(path)
    eventually(lambda: is_held(holder), "the sockets are held")
    gateway.kill()
    eventually(lambda: is_refused(gateway.port), "the sockets are closed")
    holder.stop()


def test_the_next_holder_gets_them_too(path: Path) -> None:
    first = SocketHolder(path, SECRET)
    first.start()
    gateway = Gateway(path)
    eventually(lambda: is_held(first), "the sockets are held")
    first.stop()
    assert greeted(gateway.port) == b"hello"
    second = SocketHolder(path, SECRET)
    second.start()
    try:
        eventually(lambda: is_held(second), "the sockets are held again")
    finally:
        second.stop()
        gateway.kill()


@pytest.mark.parametrize("name", ["a.sock", "z.sock"])
def test_a_second_holder_that_comes_and_goes_changes_nothing(path: Path, holder: SocketHolder, name: str) -> None:
    """A node has two standbys for a while if a controller was lost together with a node."""
    first = Gateway(path)
    eventually(lambda: is_held(holder), "the sockets are held")
    other = SocketHolder(path.with_name(name), SECRET)
    other.start()
    first.kill()
    second = Gateway(path)
    assert second.port == first.port
    eventually(lambda: is_held(holder), "the sockets are held again")
    assert not is_held(other)
    other.stop()
    second.kill()
    third = Gateway(path)
    assert third.port == first.port
    third.kill()


def test_a_stranger_gets_no_socket(path: Path, holder: SocketHolder) -> None:
    gateway = Gateway(path)
    eventually(lambda: is_held(holder), "the sockets are held")
    stranger = Gateway(path, secret=b"another")
    assert stranger.port != gateway.port
    stranger.kill()
    assert is_held(holder)
    gateway.kill()


def test_a_gateway_that_ends_during_the_request_of_its_successor_does_not_end_the_holder(
    path: Path, holder: SocketHolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder finds both connections readable in one round."""
    old, new, other = (HeldSockets(lambda: [path], SECRET, name) for name in (NAME, NAME, "gateway-2"))
    busy, go_on, drop = threading.Event(), threading.Event(), holder._drop

    def drop_later(name: str) -> None:
        if name == "gateway-2":
            busy.set()
            go_on.wait(20)
        drop(name)

    monkeypatch.setattr(holder, "_drop", drop_later)
    old._connect()
    listening = old.listen("kafka", HOST, 0)
    assert old._give()
    other._connect()
    giving = threading.Thread(target=other._give)
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as connection:
        connection.connect(str(path))
        new._authenticate(connection)
        giving.start()
        assert busy.wait(20)
        connection.send(json.dumps({"own": NAME}).encode())
        old._disconnect()
        go_on.set()
        connection.settimeout(20)
        _, found = receive(connection)
        giving.join(20)
        other._disconnect()
        other._connect()
        assert other._connection is not None, "it still serves"
    assert [each.get_inheritable() for _, each in found] == [False], "programs that are started do not get it"
    old._close_all()
    other._disconnect()
    close_all([each for _, each in found])
    close_all(listening)


def test_no_descriptor_stays_open(path: Path) -> None:
    folder = Path("/proc/self/fd")
    before = len(list(folder.iterdir()))
    holder = SocketHolder(path, SECRET)
    holder.start()
    for _ in range(3):
        gateway = Gateway(path)
        eventually(lambda: is_held(holder), "the sockets are held")
        gateway.kill()
        gateway.pipe.close()
        gateway._process.close()
    holder.stop()
    assert len(list(folder.iterdir())) <= before + 1, "multiprocessing keeps one"


def test_without_a_holder_a_gateway_listens_by_itself(path: Path) -> None:
    gateway = Gateway(path)
    assert greeted(gateway.port) == b"hello"
    gateway.kill()
    assert is_refused(gateway.port)


def test_a_port_that_is_taken_is_refused() -> None:
    (taken,) = listening_sockets(HOST, 0)
    with taken, pytest.raises(OSError, match="in use"):
        listening_sockets(HOST, taken.getsockname()[1])
