"""kazoo's connection to ZooKeeper, without its overhead: a poll and a read for each piece of each event."""

from __future__ import annotations

import select
import struct
from collections.abc import Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.handlers.utils import fileobj_to_fd
from kazoo.protocol.connection import CLOSE_RESPONSE, WATCH_XID, ConnectionDropped, ConnectionHandler
from kazoo.protocol.serialization import Watch
from kazoo.protocol.states import EVENT_TYPE_MAP
from kazoo.retry import ForceRetryError, KazooRetry

_SIZE = struct.Struct("!i")
_EVENT_FRAME = struct.Struct("!iiqiiii")
"""Its size without these four bytes, xid, zxid, err, type, state, and the length of the path, which follows."""
_READ_AHEAD_BYTES = 1 << 16


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler, with one system call for a select instead of five."""

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

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        self._ahead = bytearray()
        return super()._connect(host, hostip, port)

    def _read_socket(self, read_timeout: float) -> Any:
        self._reads_ahead = not self.client.use_ssl
        try:
            response = super()._read_socket(read_timeout)
            self._take_tree_events()
            while response != CLOSE_RESPONSE and self._has_frame():
                response = super()._read_socket(read_timeout)
                self._take_tree_events()
            return response
        finally:
            self._reads_ahead = False

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
        except BlockingIOError:
            return b""
        if not data:
            raise ConnectionDropped("socket connection broken")
        return data

    def _connect_loop(self, retry: KazooRetry) -> Any:
        try:
            return super()._connect_loop(retry)
        except ForceRetryError:  # all hosts were tried
            self.client.found_no_server()
            raise

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        if event.type in EVENT_TYPE_MAP:
            self.client.dispatch_tree_events([(event.type, event.path)])
        super()._read_watch_event(buffer, offset)
