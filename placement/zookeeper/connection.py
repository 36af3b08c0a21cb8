"""kazoo's connection to ZooKeeper, without its overhead: a poll and a read for each piece of each event."""

from __future__ import annotations

import select
import socket
import ssl
import struct
from collections.abc import Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.handlers.utils import fileobj_to_fd
from kazoo.protocol.connection import CLOSE_RESPONSE, WATCH_XID, ConnectionDropped, ConnectionHandler
from kazoo.protocol.serialization import Watch
from kazoo.protocol.states import EVENT_TYPE_MAP
from kazoo.retry import ForceRetryError, KazooRetry

from muster.placement.zookeeper.access import Access

_SIZE = struct.Struct("!i")
_EVENT_FRAME = struct.Struct("!iiqiiii")
"""Its size without these four bytes, xid, zxid, err, type, state, and the length of the path, which follows."""
_READ_AHEAD_BYTES = 1 << 16
_COMMAND_S = 5.0


class UnusableFile(OSError):
    """A file for TLS; the message names it."""


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler, with one system call for a select instead of five, and with TLS that trusts what it should."""

    def __init__(self, access: Access) -> None:
        super().__init__()
        self._access = access

    def create_connection(
        self,
        address: tuple[str, int],
        *,
        hostname: str | None = None,
        timeout: float | None = None,
        use_ssl: bool = False,
        **_: Any,
    ) -> socket.socket:
        """Like kazoo's, which trusts the authorities of the system, too, where others are named. Raises OSError."""
        try:
            context = self._access.tls_context() if use_ssl else None
        except ValueError as error:
            raise UnusableFile(str(error)) from error
        connection = socket.create_connection(address, timeout)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection if context is None else context.wrap_socket(connection, server_hostname=hostname)
        except OSError:
            connection.close()
            raise

    def select(
        self, rlist: Sequence[Any], wlist: Sequence[Any], xlist: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Like select.select, for any file descriptor; ``xlist`` is ignored, as kazoo does."""
        readers = {fileobj_to_fd(one): one for one in rlist}
        writers = {fileobj_to_fd(one): one for one in wlist}
        poll = select.poll()
        for fd in readers.keys() | writers.keys():
            poll.register(fd, (select.POLLIN if fd in readers else 0) | (select.POLLOUT if fd in writers else 0))
        ready = [fd for fd, _ in poll.poll(None if timeout is None else timeout * 1000)]
        return [readers[fd] for fd in ready if fd in readers], [writers[fd] for fd in ready if fd in writers], []


class Connection(ConnectionHandler):  # type: ignore[misc]
    """kazoo's connection, but received data is read from the socket at once, not in pieces with a poll for each."""

    _ahead = bytearray()
    _reads_ahead = False
    _host: tuple[str, str, int]
    """The name, the address and the port of the last attempt."""
    _refusals: list[str | None]
    """Each host's refusal of this client in this cycle of attempts; None: it only did not respond."""

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        self._ahead = bytearray()
        self._host = (host, hostip, port)
        try:
            return super()._connect(host, hostip, port)
        except Exception as error:
            self._refusals.append(_refusal(error.__context__))
            raise

    def command(self, words: bytes) -> str:
        """Return the response to one of ZooKeeper's four-letter words, from the host of this connection.

        Raises OSError.
        """
        host, hostip, port = self._host
        with self.handler.create_connection(
            (hostip, port), hostname=host, timeout=_COMMAND_S, use_ssl=self.client.use_ssl
        ) as connection:
            connection.sendall(words)
            response = b"".join(iter(lambda: connection.recv(_READ_AHEAD_BYTES), b""))
        return response.decode("utf-8", "replace")

    def _read_socket(self, read_timeout: float) -> Any:
        self._reads_ahead = True
        try:
            if not self._ahead:
                self._ahead += self._available(_READ_AHEAD_BYTES)
            if not self._ahead:
                return None  # what came was for TLS alone
            response = super()._read_socket(read_timeout)
            self._take_tree_events()
            while response != CLOSE_RESPONSE and (self._has_frame() or self._has_decrypted()):
                response = super()._read_socket(read_timeout)
                self._take_tree_events()
            return response
        finally:
            self._reads_ahead = False

    def _has_decrypted(self) -> bool:
        """Whether TLS holds data that no select reports."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def _take_tree_events(self) -> None:
        """Dispatch the events at the head of the data read, up to the first that is not only for recursive watches."""
        data, taken = self._ahead, 0
        one_time = [watchers for watchers in self.client.one_time_watchers if watchers]
        events: list[tuple[int, str]] = []
        while len(data) - taken >= _EVENT_FRAME.size:
            size, xid, _, _, kind, _, _ = _EVENT_FRAME.unpack_from(data, taken)
            end = taken + _SIZE.size + size
            if xid != WATCH_XID or end > len(data) or kind not in EVENT_TYPE_MAP:
                break
            path = data[taken + _EVENT_FRAME.size : end].decode()
            if one_time and any(path in watchers for watchers in one_time):
                break
            events.append((kind, path))
            taken = end
        del data[:taken]
        if events:
            self.client.dispatch_tree_events(events)

    def _has_frame(self) -> bool:
        return len(self._ahead) >= _SIZE.size and len(self._ahead) - _SIZE.size >= _SIZE.unpack_from(self._ahead)[0]

    def _read(self, length: int, timeout: float) -> bytes:
        if not self._reads_ahead:
            return bytes(super()._read(length, timeout))
        if len(self._ahead) < length:
            self._ahead += self._available(length - len(self._ahead))
        if (missing := length - len(self._ahead)) > 0:
            self._ahead += super()._read(missing, timeout)
        data = bytes(self._ahead[:length])
        del self._ahead[:length]
        return data

    def _available(self, wanted: int) -> bytes:
        try:
            data = bytes(self._socket.recv(max(wanted, _READ_AHEAD_BYTES)))
        except (BlockingIOError, ssl.SSLWantReadError):
            return b""
        if not data:
            raise ConnectionDropped("socket connection broken")
        return data

    def _connect_loop(self, retry: KazooRetry) -> Any:
        self._refusals = []
        self.client.find_hosts()
        try:
            return super()._connect_loop(retry)
        except ForceRetryError:  # all hosts were tried
            refusals = [refusal for refusal in self._refusals if refusal]
            is_refused = bool(refusals) and len(refusals) == len(self._refusals)
            self.client.found_no_server(refusals[-1] if is_refused else None)
            raise

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        if event.type in EVENT_TYPE_MAP:
            self.client.dispatch_tree_events([(event.type, event.path)])
        super()._read_watch_event(buffer, offset)


def _refusal(error: BaseException | None) -> str | None:
    """Why another attempt would fail, too; None if it might not."""
    match error:
        case UnusableFile():
            return str(error)
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message}"
        case ssl.SSLError(reason=str(reason)) if "ALERT" in reason:
            return f"it refuses TLS with this client ({reason.partition('ALERT_')[2].replace('_', ' ').lower()})"
    return None
