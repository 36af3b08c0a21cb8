"""Holds duplicates of gateways' listening sockets (:mod:`muster.actors.wire.sockets.held`), for dead gateways, too."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import select
import selectors
import socket
import threading
import time
from pathlib import Path
from typing import Any, Protocol

from muster.actors.wire.internal.envelope import NONCE_BYTES, Unauthenticated, proof, same_proof
from muster.actors.wire.internal.listener import make_room
from muster.actors.wire.sockets.held import BACKLOG
from muster.actors.wire.sockets.passing import GATEWAY, HOLDER, MAX_PACKET_BYTES, Closed, Held, close_all, receive, send

log = logging.getLogger(__name__)

KEEP_S = 30.0
"""How long the sockets of a dead gateway are held: clients of one that does not return should be refused."""


class Accepting(Protocol):
    """Acceptor of clients in place of dead gateways. Called in the holder's thread."""

    def begin(self, name: str, sockets: list[Held]) -> None:
        """Begin to accept for that gateway, which is dead. The callee closes the sockets. Returns at once."""

    def end(self, name: str) -> None:
        """Accept no more clients for that gateway, if it does: its next process will, or none. Returns soon."""


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
    """Holds sockets in a thread of its own: a gateway that starts gets them soon, whatever else the process does."""

    def __init__(
        self, path: Path, secret: bytes, *, accepting: Accepting | None = None, keep_s: float = KEEP_S
    ) -> None:
        """``path``: where gateways connect, and no other holder's. ``keep_s``: see KEEP_S.

        Without ``accepting``, clients of a dead gateway wait for its next process.
        """
        self._path = path
        self._secret = secret
        self._accepting = accepting
        self._keep_s = keep_s
        self._held: dict[str, list[Held]] = {}
        self._accepted_for: set[str] = set()
        self._owners: dict[str, _Owner] = {}
        self._ends_s: dict[str, float] = {}
        """When the sockets of dead gateways are closed."""
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._run, name="socket holder", daemon=True)

    def start(self) -> None:
        """Listen for gateways. Raises OSError."""
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
        for name in list(self._held):
            self._drop(name)
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, _Owner):
                self._close(key.data)
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
        self._accept_no_more(name)
        close_all([held for _, held in self._held.pop(name, [])])
        self._ends_s.pop(name, None)

    def _accept_no_more(self, name: str) -> None:
        if self._accepting is not None and name in self._accepted_for:
            self._accepted_for.discard(name)
            self._accepting.end(name)

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
                self._accept_for(owner.name)

    def _accept_for(self, name: str) -> None:
        if self._accepting is None:
            return
        found: list[Held] = []
        try:
            for key, each in self._held[name]:
                found.append((key, each.dup()))
        except OSError as error:  # too many open files
            log.error("%s is not served here: %s", name, error)
            close_all(each for _, each in found)
        else:
            self._accepted_for.add(name)
            self._accepting.begin(name, found)

    def _serve(self, owner: _Owner) -> bool:
        """Serve one packet. Returns whether the connection is still open."""
        try:
            if not owner.proven:
                self._prove(owner)
            else:
                self._request(owner, *receive(owner.connection))
        except BlockingIOError:
            return True
        except (OSError, ValueError, TypeError, Unauthenticated) as error:
            if not isinstance(error, Closed):
                log.warning("connection of %s closed: %s", owner.name or "a process of this node", error)
            self._close(owner)
            return False
        return True

    def _prove(self, owner: _Owner) -> None:
        packet = owner.connection.recv(MAX_PACKET_BYTES)
        if not packet:
            raise Closed
        proven, nonce = packet[:-NONCE_BYTES], packet[-NONCE_BYTES:]
        if not same_proof(proven, proof(self._secret, GATEWAY, owner.nonce)):
            raise Unauthenticated("a gateway without the cluster's secret")
        owner.proven = True
        owner.connection.send(proof(self._secret, HOLDER, nonce))

    def _request(self, owner: _Owner, request: dict[str, Any], sockets: list[Held]) -> None:
        if "own" in request:
            self._own(owner, str(request["own"]))
            return
        if not owner.name:
            close_all([held for _, held in sockets])
            raise ValueError("a request of no gateway")
        self._drop(owner.name)
        if sockets:
            self._held[owner.name] = sockets
        send(owner.connection, {})

    def _own(self, owner: _Owner, name: str) -> None:
        predecessor = self._owners.get(name)
        if predecessor is not None and predecessor.has_ended:
            while self._serve(predecessor):
                pass
        elif predecessor is not None:
            send(owner.connection, {"error": f"another process of {name} has them"})
            return
        self._accept_no_more(name)
        owner.name = name
        self._owners[name] = owner
        held = self._held.get(name, [])
        send(owner.connection, {"hold": [key for key, _ in held]}, [each for _, each in held])
