"""A gateway's listening sockets, which outlive its process: another process of its node holds duplicates of them.

While the gateway is dead, connections of clients wait in the kernel's backlog instead of being refused. Its next
process gets the same sockets, with the same ports, and accepts what waits.

The :class:`SocketHolder` listens on a Unix domain socket; a node can have two of them for a while. A gateway keeps a
connection to one (:class:`HeldSockets`) for as long as it lives, so the end of the connection is the end of the
gateway. Messages are packets of JSON, sockets are passed with them (SCM_RIGHTS, unix(7)). First, both sides prove that
they know the cluster's secret, as on the internal socket (:mod:`muster.actors.wire.envelope`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import select
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from muster.actors.wire.envelope import NONCE_BYTES, Unauthenticated, proof, same_proof
from muster.actors.wire.server import make_room

log = logging.getLogger(__name__)

KEEP_S = 30.0
"""How long the sockets of a dead gateway are held: clients that wait for one that does not return should be refused."""
BACKLOG = 1024
"""Connections that wait to be accepted, at most; the kernel may allow fewer (net.core.somaxconn)."""
_MAX_PACKET_BYTES = 1 << 16
_MAX_SOCKETS = 128
"""In one packet; Linux allows 253."""
_TIMEOUT_S = 2.0
"""How long a holder may take to respond. It is on the same node, in a thread of its own."""
_RETRY_S = 1.0
_HOLDER, _GATEWAY = b"holder", b"gateway"

Listening = Callable[[str, int], list[socket.socket]]
"""What :func:`listening_sockets` does."""
Held = tuple[str, socket.socket]
"""A listening socket under the key that its gateway knows it by."""


def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Listen at all addresses of ``host``, as asyncio's ``create_server`` does; port 0: a free one, the same for all.

    OSError if one cannot be bound; none is then left.
    """
    flags, kind = socket.AI_PASSIVE, socket.SOCK_STREAM
    found: list[socket.socket] = []
    try:
        for family, _, protocol, _, address in dict.fromkeys(
            socket.getaddrinfo(host or None, port, type=kind, flags=flags)
        ):
            chosen = found[0].getsockname()[1] if found else port
            found.append(made := socket.socket(family, kind, protocol))
            made.setblocking(False)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                made.bind((address[0], chosen, *address[2:]))
                made.listen(BACKLOG)
            except OSError as error:
                problem = f"error while attempting to bind on address {address}: {(error.strerror or '').lower()}"
                raise OSError(error.errno, problem) from error
    except BaseException:
        _close(found)
        raise
    return found


class HeldSockets:
    """The listening sockets of a gateway's process. For one event loop; its process ends them all, except the held."""

    def __init__(self, holders: Callable[[], Iterable[Path]], secret: bytes, name: str) -> None:
        """``holders`` gives the sockets of the node's holders at the time; ``name`` is that of the gateway's actor."""
        self._holders = holders
        self._secret = secret
        self._name = name
        self._connection: socket.socket | None = None
        self._fetched: list[Held] = []
        self._listening: list[Held] = []
        self._keeper: asyncio.Task[None] | None = None

    async def fetch(self) -> None:
        """Get the sockets of the gateway's previous process, if a holder has them."""
        await asyncio.to_thread(self._connect)

    def listen(self, use: str, host: str, port: int) -> list[socket.socket]:
        """Sockets that listen there: those that were fetched, else new ones, which the caller closes. OSError.

        ``use`` distinguishes them from others with the same host and port; a port of 0 is kept in later processes.
        """
        key = f"{use} {host}:{port}"
        found = [held for name, held in self._fetched if name == key]
        self._fetched = [each for each in self._fetched if each[1] not in found]
        found = found or listening_sockets(host, port)
        self._listening += [(key, each.dup()) for each in found]
        return found

    def hold(self) -> None:
        """From now on, have a holder hold them, and the next one if that ends."""
        _close([held for _, held in self._fetched])
        self._fetched = []
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def _keep(self) -> None:
        while True:
            if self._connection is None and any(self._holders()):
                await asyncio.to_thread(self._connect)
                _close([held for _, held in self._fetched])
                self._fetched = []
            if self._connection is not None and await asyncio.to_thread(self._give):
                await _until_closed(self._connection)
                self._disconnect()
                log.info("the sockets of %s are held no more", self._name)
            else:
                await asyncio.sleep(_RETRY_S)

    def _connect(self) -> None:
        """Become the owner of the sockets under this name, and get them. Blocks; no effect without a holder."""
        for path in self._holders():
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.settimeout(_TIMEOUT_S)
            try:
                connection.connect(str(path))
                found = self._own(connection)
            except (FileNotFoundError, ConnectionRefusedError):  # it has ended
                connection.close()
            except (OSError, ValueError, Unauthenticated) as error:
                connection.close()
                log.info("%s holds no sockets for %s: %s", path.name, self._name, error)
            else:
                self._disconnect()
                self._connection, self._fetched = connection, found
                if found:
                    return

    def _own(self, connection: socket.socket) -> list[Held]:
        self._authenticate(connection)
        connection.send(json.dumps({"own": self._name}).encode())
        response, found = _receive(connection)
        if "error" in response:
            raise OSError(response["error"])
        return found

    def _authenticate(self, connection: socket.socket) -> None:
        challenge, nonce = connection.recv(_MAX_PACKET_BYTES), secrets.token_bytes(NONCE_BYTES)
        if len(challenge) != NONCE_BYTES:
            raise Unauthenticated("no challenge")
        connection.send(proof(self._secret, _GATEWAY, challenge) + nonce)
        if not same_proof(connection.recv(_MAX_PACKET_BYTES), proof(self._secret, _HOLDER, nonce)):
            raise Unauthenticated("a holder without the cluster's secret")

    def _give(self) -> bool:
        """Have the holder hold what this process listens on. Blocks. Returns whether it does."""
        assert self._connection is not None
        try:
            _send(
                self._connection, {"hold": [key for key, _ in self._listening]}, [held for _, held in self._listening]
            )
            response, _ = _receive(self._connection)
        except (OSError, ValueError) as error:
            log.info("the sockets of %s are not held: %s", self._name, error)
            self._disconnect()
            return False
        return "error" not in response

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def abandon(self) -> None:
        """The gateway has not started: the holder keeps what it has for the next attempt."""
        self._close_all()
        self._disconnect()

    def _close_all(self) -> None:
        _close([held for _, held in (*self._listening, *self._fetched)])
        self._listening, self._fetched = [], []

    async def release(self) -> None:
        """The gateway stops: no process holds its sockets any more, apart from this one, which closes its own."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        self._close_all()
        await asyncio.to_thread(self._release)

    def _release(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError, ValueError):
                _send(self._connection, {"release": True})
                _receive(self._connection)
            self._disconnect()


class _Owner:
    """A gateway's connection, on the holder's side."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.nonce = secrets.token_bytes(NONCE_BYTES)
        self.proven = False
        self.name = ""

    @property
    def is_closed(self) -> bool:
        """Whether the holder has closed it, possibly in the same round in which it was found to be readable."""
        return self.connection.fileno() < 0

    @property
    def has_ended(self) -> bool:
        poll = select.poll()
        poll.register(self.connection, 0)  # POLLHUP is always reported
        return bool(poll.poll(0))


class SocketHolder:
    """Holds sockets in a thread of its own: whatever else the process does, a gateway that starts gets them at once."""

    def __init__(self, path: Path, secret: bytes, *, keep_s: float = KEEP_S) -> None:
        """``path``: where gateways connect, and no other holder's. ``keep_s``: see KEEP_S."""
        self._path = path
        self._secret = secret
        self._keep_s = keep_s
        self._held: dict[str, list[Held]] = {}
        self._owners: dict[str, _Owner] = {}
        self._ends_s: dict[str, float] = {}
        """When the sockets of dead gateways are closed."""
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._run, name="socket holder", daemon=True)

    def start(self) -> None:
        """Listen for gateways. OSError."""
        make_room(self._path)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(self._path))
        self._path.chmod(0o600)
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        self._stopped = os.eventfd(0, os.EFD_CLOEXEC)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._stopped, selectors.EVENT_READ)
        self._thread.start()

    def stop(self) -> None:
        """Close all sockets that are held. Gateways give theirs to the next holder."""
        if self._thread.is_alive():
            os.eventfd_write(self._stopped, 1)
            self._thread.join()
            self._path.unlink(missing_ok=True)

    def _run(self) -> None:
        stop = False
        while not stop:
            for key, _ in self._selector.select(self._left_s()):
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, _Owner):
                    if not key.data.is_closed:
                        self._serve(key.data)
                else:
                    stop = True
            self._close_expired()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, _Owner):
                self._close(key.data)
        for name in list(self._held):
            self._drop(name)
        self._listener.close()
        self._selector.close()
        os.close(self._stopped)

    def _left_s(self) -> float | None:
        return max(0.0, min(self._ends_s.values()) - time.monotonic()) if self._ends_s else None

    def _close_expired(self) -> None:
        now_s = time.monotonic()
        for name in [name for name, end_s in self._ends_s.items() if end_s <= now_s]:
            log.warning("%s does not serve again: its sockets are closed", name)
            self._drop(name)

    def _drop(self, name: str) -> None:
        _close([held for _, held in self._held.pop(name, [])])
        self._ends_s.pop(name, None)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            owner = _Owner(connection)
            self._selector.register(connection, selectors.EVENT_READ, owner)
            connection.send(owner.nonce)

    def _close(self, owner: _Owner) -> None:
        self._selector.unregister(owner.connection)
        owner.connection.close()
        if self._owners.get(owner.name) is owner:
            del self._owners[owner.name]
            if owner.name in self._held:
                self._ends_s.setdefault(owner.name, time.monotonic() + self._keep_s)

    def _serve(self, owner: _Owner) -> bool:
        """Serve one packet. Returns whether the connection is still open."""
        try:
            if not owner.proven:
                self._prove(owner)
            else:
                self._request(owner, *_receive(owner.connection))
        except BlockingIOError:
            return True
        except (OSError, ValueError, TypeError, Unauthenticated) as error:
            if not isinstance(error, _Closed):
                log.warning("connection of %s closed: %s", owner.name or "a process of this node", error)
            self._close(owner)
            return False
        return True

    def _prove(self, owner: _Owner) -> None:
        packet = owner.connection.recv(_MAX_PACKET_BYTES)
        if not packet:
            raise _Closed
        proven, nonce = packet[:-NONCE_BYTES], packet[-NONCE_BYTES:]
        if not same_proof(proven, proof(self._secret, _GATEWAY, owner.nonce)):
            raise Unauthenticated("a gateway without the cluster's secret")
        owner.proven = True
        owner.connection.send(proof(self._secret, _HOLDER, nonce))

    def _request(self, owner: _Owner, request: dict[str, Any], sockets: list[Held]) -> None:
        if "own" in request:
            self._own(owner, str(request["own"]))
            return
        if not owner.name:
            _close([held for _, held in sockets])
            raise ValueError("a request of no gateway")
        self._drop(owner.name)
        if sockets:
            self._held[owner.name] = sockets
        _send(owner.connection, {})

    def _own(self, owner: _Owner, name: str) -> None:
        predecessor = self._owners.get(name)
        if predecessor is not None and predecessor.has_ended:
            while self._serve(predecessor):
                pass
        elif predecessor is not None:
            _send(owner.connection, {"error": f"another process of {name} has them"})
            return
        owner.name = name
        self._owners[name] = owner
        held = self._held.get(name, [])
        _send(owner.connection, {"hold": [key for key, _ in held]}, [each for _, each in held])


class _Closed(OSError):
    """The other side has closed the connection."""


def _send(connection: socket.socket, message: dict[str, Any], sockets: Sequence[socket.socket] = ()) -> None:
    socket.send_fds(connection, [json.dumps(message).encode()], [each.fileno() for each in sockets])


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[Held]]:
    """A message, and the sockets that it names under ``hold``. OSError if the connection is closed, ValueError."""
    data, files, _, _ = socket.recv_fds(connection, _MAX_PACKET_BYTES, _MAX_SOCKETS)
    sockets = [socket.socket(fileno=file) for file in files]
    try:
        if not data:
            raise _Closed("closed by the other side")
        message = json.loads(data)
        keys = message.get("hold", [])
        if len(keys) != len(sockets):
            raise ValueError(f"{len(sockets)} sockets for {len(keys)} keys")
    except BaseException:
        _close(sockets)
        raise
    for each in sockets:
        each.setblocking(False)
        each.set_inheritable(False)  # what comes with a message is; a program that is started must not keep it open
    return message, list(zip(keys, sockets, strict=True))


async def _until_closed(connection: socket.socket) -> None:
    """Returns when the other side has closed the connection, on which it sends nothing by itself."""
    loop, closed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection.fileno(), closed.set)
    try:
        await closed.wait()
    finally:
        loop.remove_reader(connection.fileno())


def _close(sockets: Sequence[socket.socket]) -> None:
    for each in sockets:
        each.close()
