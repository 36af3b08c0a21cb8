"""KoP's nodes in a ZooKeeper tree of their own, read and written by a thread: for the shadow alone.

What KoP does while a client waits is done here behind the client's back, in the same order. Nobody waits for it, so
its answers come a moment later than KoP would have had them.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from muster.gateway.attribution.kop import KopRule, StoreError
from muster.placement.layout import KOP_SHADOW
from muster.placement.zookeeper.client import ZooKeeperClient, ZooKeeperUnreachable, client

log = logging.getLogger(__name__)

_CONNECT_S = 10.0
_ASK_S = 5.0

Work = Callable[[KopRule], None]


class ZooKeeperStore:
    """A :class:`muster.gateway.attribution.kop.Store` under ``/muster_shadow``. Fails if ZooKeeper is unavailable."""

    def __init__(self, zk: ZooKeeperClient) -> None:
        self._zk = zk
        self.failures = 0
        """Calls that failed, those with a path that ZooKeeper refuses too."""

    def put(self, path: str, data: bytes) -> None:
        try:
            self._ask(self._zk.create_async, path, data, makepath=True)
        except NodeExistsError:
            self._ask(self._zk.set_async, path, data)

    def get(self, path: str) -> bytes | None:
        try:
            data, _ = self._ask(self._zk.get_async, path)
        except NoNodeError:
            return None
        return bytes(data)

    def delete(self, path: str) -> None:
        try:
            self._ask(self._zk.delete_async, path)
        except NoNodeError:
            return

    def _ask(self, operation: Callable[..., object], path: str, *data: bytes, **options: bool) -> tuple[bytes, object]:
        try:
            self._check(path)
            found: tuple[bytes, object] = self._zk.ask(
                operation, f"{KOP_SHADOW}{path}", *data, timeout_s=_ASK_S, **options
            )
        except (NoNodeError, NodeExistsError):
            raise
        except (KazooException, ZooKeeperUnreachable, ValueError) as error:
            self.failures += 1
            raise StoreError(str(error)) from error
        return found

    def _check(self, path: str) -> None:
        """Java's client refuses what kazoo would make a path of."""
        if any(part in ("", ".", "..") for part in path.split("/")[1:]):
            raise ValueError(f"invalid path {path!r}")
        if not self._zk.connected:
            raise ZooKeeperUnreachable("ZooKeeper is away")


class KopThread:
    """Runs KoP's rule over ZooKeeper, one thing after the other, in a thread of its own."""

    def __init__(self, zk_hosts: str) -> None:
        self._zk = client(zk_hosts)
        self._store = ZooKeeperStore(self._zk)
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="kop-shadow", daemon=True)
        self._thread.start()

    @property
    def backlog(self) -> int:
        """What is still to be done."""
        return self._queue.qsize()

    @property
    def failures(self) -> int:
        """Calls of the store that failed."""
        return self._store.failures

    def do(self, work: Work) -> None:
        """Have it done after all that came before. Returns at once."""
        self._queue.put(work)

    def close(self, timeout_s: float) -> None:
        """End when all that came before is done, or after that time."""
        self._queue.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        self._zk.start_async().wait(_CONNECT_S)
        rule = KopRule(self._store)
        try:
            while (work := self._queue.get()) is not None:
                try:
                    work(rule)
                except Exception:
                    log.exception("the shadow of KoP's rule missed something")
        finally:
            self._zk.shut()
