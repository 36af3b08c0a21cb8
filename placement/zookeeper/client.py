"""The ZooKeeper client: kazoo with our timeouts, bounded waiting, quiet logs, and recursive watches.

kazoo 2.11 has no persistent watches (ZooKeeper 3.6, ZOOKEEPER-1416). This module adds the one request and the one event
dispatch that they need; muster.placement.zookeeper.multi adds reads of many nodes, and
muster.placement.zookeeper.connection reads thousands of events at a lower cost. Everything else is kazoo's own.
"""

from __future__ import annotations

import contextlib
import logging
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import write_string
from kazoo.protocol.states import EVENT_TYPE_MAP, KazooState, WatchedEvent, ZnodeStat
from kazoo.retry import KazooRetry
from kazoo.security import ACL

from muster.placement.zookeeper.access import ANYONE, Access
from muster.placement.zookeeper.connection import Connection, Handler
from muster.placement.zookeeper.multi import MultiRead, read_children, read_data
from muster.placement.zookeeper.outages import outages_of

SESSION_TIMEOUT_S = 10.0
"""Requested of the server, which may grant less. Ephemeral nodes outlive their owner by up to this time."""
_MAX_RECONNECT_DELAY_S = 2.0
_NOTICE_STOP_S = 0.2
_LONG_AWAY_S = 10.0
_LONG_AWAY_PATIENCE_S = 1.0
_RETRIABLE = (ConnectionLoss, SessionExpiredError, OperationTimeoutError)

Operation = tuple[Any, ...]
"""Name and arguments of a method of kazoo's TransactionRequest, such as ``("create", path, data)`` and
``("check", path, version)``; ``("create_sequential", path, data)`` creates a node whose name ends with a number."""


class ZooKeeperUnreachable(ConnectionError):
    """ZooKeeper did not respond in time; the message names the hosts."""


@dataclass(frozen=True)
class _AddRecursiveWatch:
    """ZooKeeper's AddWatchRequest (opcode 106) with mode PERSISTENT_RECURSIVE (1)."""

    type: ClassVar[int] = 106

    path: str

    def serialize(self) -> bytes:
        return bytes(write_string(self.path)) + struct.pack("!i", 1)

    @classmethod
    def deserialize(cls, buffer: bytes, offset: int) -> bool:
        return True


class ZooKeeperClient(KazooClient):  # type: ignore[misc]
    """A kazoo client. Created by :func:`connect` or, without waiting for the server, by :func:`client`."""

    def __init__(self, hosts: str, *, access: Access = ANYONE, logger: logging.Logger) -> None:
        super().__init__(
            **access.options(),
            hosts=hosts,
            timeout=SESSION_TIMEOUT_S,
            logger=logger,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=_MAX_RECONNECT_DELAY_S),
            handler=Handler(access),
            command_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=1.0, deadline=SESSION_TIMEOUT_S),
        )
        self.hosts_text = hosts
        self._access = access
        self._connection = Connection(self, self._conn_retry.copy(), logger=logger)
        self._tree_watchers: dict[str, Callable[[WatchedEvent], None]] = {}
        self._outages = outages_of(hosts.partition("/")[0])
        self._away_since: float | None = None
        self._logs_first_attempts = True
        self._refusal: str | None = None
        self._is_decided = threading.Event()
        self.add_listener(self._state_changed)

    def find_hosts(self) -> None:
        """Before each attempt at all hosts: use the servers that Muster's own ensemble has now."""
        if (hosts := self._access.hosts()) is not None and hosts != self.hosts_text:
            self.hosts_text = hosts
            self.set_hosts(hosts)

    def found_no_server(self, refusal: str | None = None) -> None:
        """There is no connection, or no host accepted one; kazoo keeps trying.

        ``refusal``: why further attempts will fail as well, unless someone changes something.
        """
        if self._live.is_set() or self._stopped.is_set():
            return
        if self._away_since is None:
            self._away_since = time.monotonic()
        if self._logs_first_attempts:
            self._outages.lost(self)
            if refusal is not None:
                self._outages.refused(refusal)
        self._refusal = refusal
        if refusal is not None:
            self._is_decided.set()

    def await_connection(self, timeout_s: float) -> None:
        """Wait for the first connection of a started client.

        Raises ZooKeeperUnreachable after ``timeout_s``, or a refusal.
        """
        self._is_decided.wait(timeout_s)
        if self._live.is_set():
            return
        if self._refusal is not None:
            raise ZooKeeperUnreachable(f"no connection to ZooKeeper at {self.hosts_text}: {self._refusal}")
        raise ZooKeeperUnreachable(f"no ZooKeeper answers at {self.hosts_text} within {timeout_s:g} s")

    def command(self, cmd: bytes = b"ruok") -> str:
        """Return the response to one of ZooKeeper's four-letter words.

        Raises ConnectionLoss without a connection, OSError.
        """
        if not self._live.is_set():
            raise ConnectionLoss("no connection to a server")
        return self._connection.command(cmd)

    def _state_changed(self, state: str) -> None:
        if self._stopped.is_set():
            self._outages.closed(self)
        elif state == KazooState.CONNECTED:
            self._away_since = None
            self._logs_first_attempts = True
            self._is_decided.set()
            self._outages.found(self)
        elif state == KazooState.SUSPENDED:
            self.found_no_server()
        else:
            self._outages.expired()

    def _patience_s(self, timeout_s: float) -> float:
        since = self._away_since
        is_long = since is not None and time.monotonic() - since > _LONG_AWAY_S
        return min(timeout_s, _LONG_AWAY_PATIENCE_S) if is_long else timeout_s

    def create_async(self, path: str, value: bytes = b"", acl: Sequence[ACL] | None = None, **named: Any) -> Any:
        """Create a node like kazoo, but with the path's own ACL."""
        return super().create_async(path, value, acl=list(acl or self._access.acl_of(path)), **named)

    def ensure_path_async(self, path: str, acl: Sequence[ACL] | None = None) -> Any:
        """Create missing nodes like kazoo, but each with its own ACL, also the parents of a new node."""
        return super().ensure_path_async(path)

    def call(
        self, operation: Callable[..., Any], *args: Any, timeout_s: float = SESSION_TIMEOUT_S, **named: Any
    ) -> Any:
        """Call one of kazoo's ``*_async`` methods and wait. Returns its result, or raises ZooKeeper's error.

        While the connection is lost the call waits, and is then repeated, for up to ``timeout_s`` in all; after that
        ZooKeeperUnreachable. If ZooKeeper has been unavailable for more than 10 s already, the limit is 1 s. The
        operation may have been carried out although the call failed, or carried out twice: use it only for operations
        for which that is harmless. A client that is not started, or is closed meanwhile, does not wait.
        """
        timeout_s = self._patience_s(timeout_s)
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            if self._stopped.is_set():
                raise ZooKeeperUnreachable(f"the client of ZooKeeper at {self.hosts_text} is closed")
            if not self._live.wait(min(left_s, _NOTICE_STOP_S)):
                continue
            try:
                return operation(*args, **named).get(timeout=max(0.001, deadline - time.monotonic()))
            except _RETRIABLE:
                time.sleep(0.02)
            except KazooTimeoutError:
                break
        raise ZooKeeperUnreachable(f"ZooKeeper at {self.hosts_text} did not answer within {timeout_s:g} s")

    def commit(self, operations: Iterable[Operation], *, timeout_s: float = SESSION_TIMEOUT_S) -> None:
        """Carry out all of the operations or none, as one transaction, with :meth:`call`'s retries.

        Raises kazoo's error of the operation that failed; the errors of the others only report the roll-back.
        """
        wanted = tuple(operations)
        error = _failure(self.call(self._commit_async, wanted, timeout_s=timeout_s))
        if error is not None:
            raise error

    def _commit_async(self, operations: Iterable[Operation]) -> Any:
        """kazoo's async result for a transaction."""
        transaction = self.transaction()
        for name, *arguments in operations:
            if name.startswith("create"):
                acl = list(self._access.acl_of(arguments[0]))
                transaction.create(*arguments, acl=acl, sequence=name == "create_sequential")
            else:
                getattr(transaction, name)(*arguments)
        return transaction.commit_async()

    def commit_each(
        self,
        transactions: Iterable[Sequence[Operation]],
        *,
        at_once: int = sys.maxsize,
        timeout_s: float = SESSION_TIMEOUT_S,
    ) -> Iterator[KazooException | None]:
        """Send each transaction as soon as it is available. The error of each, None for success.

        At most ``at_once`` are unanswered. What was sent is carried out even if its response is not awaited. Nothing is
        retried: a transaction whose response was lost (:func:`is_lost_connection`) may have been done. Raises
        ZooKeeperUnreachable if a response takes longer than ``timeout_s``.
        """
        sent: deque[Any] = deque()
        for operations in transactions:
            if len(sent) == at_once:
                yield self._error_of(sent.popleft(), timeout_s)
            sent.append(self._commit_async(operations))
        while sent:
            yield self._error_of(sent.popleft(), timeout_s)

    def _error_of(self, result: Any, timeout_s: float) -> KazooException | None:
        """Return the transaction's error; None for success. Raises ZooKeeperUnreachable after ``timeout_s``."""
        try:
            return _failure(result.get(timeout=timeout_s))
        except KazooTimeoutError as error:
            raise ZooKeeperUnreachable(
                f"ZooKeeper at {self.hosts_text} did not answer within {timeout_s:g} s"
            ) from error
        except ConnectionClosedError as error:
            raise ZooKeeperUnreachable(f"the client of ZooKeeper at {self.hosts_text} is closed") from error
        except KazooException as error:
            return error

    def read_many(
        self, paths: Iterable[str], *, timeout_s: float = SESSION_TIMEOUT_S
    ) -> dict[str, tuple[bytes, ZnodeStat]]:
        """Return data and stat of every path that exists. One request reads hundreds, in the order of the paths."""
        return read_data(paths, lambda reads: self.call(self._read_async, reads, timeout_s=timeout_s))

    def children_of_many(self, paths: Iterable[str], *, timeout_s: float = SESSION_TIMEOUT_S) -> dict[str, list[str]]:
        """Names of the children of every path that exists, in the same way."""
        return read_children(paths, lambda reads: self.call(self._read_async, reads, timeout_s=timeout_s))

    def _read_async(self, reads: MultiRead) -> Any:
        return self._send(replace(reads, paths=tuple(f"{self.chroot}{path}" for path in reads.paths)))

    def _send(self, request: Any) -> Any:
        """kazoo's async result for a request that kazoo has no method for."""
        result = self.handler.async_result()
        self._call(request, result)
        return result

    def watch_tree(self, path: str, callback: Callable[[WatchedEvent], None]) -> Any:
        """Call ``callback`` for every node at or under ``path`` that is created, changed or deleted.

        It is called on kazoo's connection thread, so it must not block. Needs ZooKeeper 3.6. The path need not exist.
        The watch ends with the connection, not with the session: set it again whenever the state becomes CONNECTED.
        Returns kazoo's async result.
        """
        full = f"{self.chroot}{path}"
        self._tree_watchers[full] = callback
        return self._send(_AddRecursiveWatch(full))

    @property
    def one_time_watchers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """kazoo's one-time watchers, by path with chroot."""
        return self._data_watchers, self._child_watchers

    def dispatch_tree_events(self, events: Sequence[tuple[int, str]]) -> None:
        """Pass kinds and paths, in order, to the recursive watches above them, on kazoo's connection thread."""
        for root, callback in tuple(self._tree_watchers.items()):
            below = root.rstrip("/") + "/"
            for kind, path in events:
                if path.startswith(below) or path == root:
                    callback(WatchedEvent(EVENT_TYPE_MAP[kind], self._state, self.unchroot(path)))

    def shut(self) -> None:
        """End the session and free all resources. Returns when done, and never raises."""
        with contextlib.suppress(Exception):
            self.stop()
        with contextlib.suppress(Exception):
            self.close()
        self._outages.closed(self)


def _failure(results: Sequence[Any]) -> KazooException | None:
    """Return the error of the operation that failed in a transaction; those of the others only report the roll-back."""
    errors = (each for each in results if isinstance(each, KazooException))
    return next((each for each in errors if not isinstance(each, RolledBackError | RuntimeInconsistency)), None)


def is_lost_connection(error: Exception) -> bool:
    """Whether the error leaves it unknown if the request was carried out."""
    return isinstance(error, _RETRIABLE)


def client(hosts: str, access: Access = ANYONE) -> ZooKeeperClient:
    """Return a client that is not started.

    Raises ZooKeeperUnreachable if ``hosts`` is no connect string, or has no credentials.
    """
    # kazoo logs every reconnection attempt; the two lines of muster.placement.zookeeper.outages are enough.
    quiet = logging.getLogger("kazoo.quiet")
    quiet.setLevel(logging.ERROR)
    try:
        access.options()
        if access.use_tls:
            access.tls_context()
    except ValueError as error:
        raise ZooKeeperUnreachable(str(error)) from error
    try:
        zk = ZooKeeperClient(hosts, access=access, logger=quiet)
    except (ValueError, KazooException) as error:
        raise ZooKeeperUnreachable(f"not a ZooKeeper connect string: {hosts!r} ({error})") from error
    return zk


def connect(hosts: str, access: Access = ANYONE, *, timeout_s: float) -> ZooKeeperClient:
    """Return a connected client; ``hosts`` is ZooKeeper's connect string, optionally with a chroot.

    Raises ZooKeeperUnreachable if no server responds within ``timeout_s``, or TLS fails with all of them. Once
    connected, the client reconnects by itself for as long as it takes, with a new session if the old one expired.
    """
    zk = client(hosts, access)
    zk._logs_first_attempts = False  # the caller gets an error
    zk.start_async()
    try:
        zk.await_connection(timeout_s)
    except ZooKeeperUnreachable:
        # kazoo may need its whole connect timeout to give up an attempt; no caller should wait for that.
        threading.Thread(target=zk.shut, name="zookeeper-give-up", daemon=True).start()
        raise
    return zk
