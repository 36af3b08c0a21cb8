"""Frames as hex files, written by a separate thread, so traffic never waits for the disk."""

from __future__ import annotations

import logging
import queue
import re
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger(__name__)

SECRET_APIS = {
    36: "SaslAuthenticate",
    38: "CreateDelegationToken",
    39: "RenewDelegationToken",
    40: "ExpireDelegationToken",
    41: "DescribeDelegationToken",
    51: "AlterUserScramCredentials",
}
"""Their requests or responses hold passwords, values derived from them, or tokens: they are never written."""

_QUEUE_FRAMES = 256
_STOP_S = 10.0
_LINE_BYTES = 40
_CLIENT_CHARS = 48


@dataclass(frozen=True, slots=True)
class Limits:
    max_frames: int
    """The limit on files."""
    max_frame_bytes: int
    each: int | None = None
    """The limit on exchanges of each client, API and version; None: all."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A recorded request, and the file names of it and of its response."""

    client: str
    api: str
    number: int


class Recorder:
    """Writes into one folder. All methods but the thread's own are for one thread; none of them waits or raises."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.limits = limits
        self.written = 0
        """Files."""
        self.too_large = 0
        """Frames that were left out for their size."""
        self.secret = 0
        """Exchanges that were left out because of ``SECRET_APIS``."""
        self.lost = 0
        """Frames that the disk refused or was too slow for."""
        self._folder = folder
        self._exchanges = 0
        self._frames = 0
        self._by_kind: Counter[tuple[str, str, int]] = Counter()
        self._queue: queue.Queue[tuple[str, bytes] | None] = queue.Queue(_QUEUE_FRAMES)
        self._complained = False
        self._thread = threading.Thread(target=self._run, name="capture-recorder", daemon=True)
        self._thread.start()

    def request(self, client: str, api: str, api_key: int, version: int, frame: bytes) -> Exchange | None:
        """Record a request, a frame without its size. None if neither it nor its response is recorded."""
        if api_key in SECRET_APIS:
            self.secret += 1
            return None
        kind = (client, api, version)
        if self.limits.each is not None and self._by_kind[kind] >= self.limits.each:
            return None
        if self._frames >= self.limits.max_frames:
            return None
        self._by_kind[kind] += 1
        self._exchanges += 1
        exchange = Exchange(file_name_part(client), api, self._exchanges)
        self._put(exchange, version, "request", frame)
        return exchange

    def response(self, exchange: Exchange, version: int, frame: bytes) -> None:
        """Record the response; ``version`` is the one in which it is encoded."""
        self._put(exchange, version, "response", frame)

    def stop(self) -> None:
        """Write what is queued; give up if the disk is too slow."""
        try:
            self._queue.put(None, timeout=_STOP_S)
        except queue.Full:
            self.lost += self._queue.qsize()
            return
        self._thread.join(_STOP_S)
        self.lost += self._queue.qsize()

    def _put(self, exchange: Exchange, version: int, side: str, frame: bytes) -> None:
        if len(frame) > self.limits.max_frame_bytes:
            self.too_large += 1
            return
        if self._frames >= self.limits.max_frames:
            return
        self._frames += 1
        if self._frames == self.limits.max_frames:
            log.warning("%d frames are recorded, no more will be; traffic continues", self._frames)
        name = f"{exchange.client}-{exchange.api}-v{version}-{exchange.number:03d}-{side}.hex"
        try:
            self._queue.put_nowait((name, frame))
        except queue.Full:
            self._lose("the disk is too slow")

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            name, frame = item
            path = self._folder / name
            try:
                path.write_text(as_hex(frame))
                self.written += 1
            except OSError as error:
                self._lose(f"{path}: {error.strerror}")
                _remove(path)

    def _lose(self, why: str) -> None:
        self.lost += 1
        if not self._complained:
            self._complained = True
            log.warning("a frame is not recorded: %s; traffic continues", why)


def file_name_part(client: str) -> str:
    """Return the client's name, with only characters safe for file systems and shells; ``unknown`` if empty."""
    return re.sub(r"[^A-Za-z0-9._+-]", "_", client)[:_CLIENT_CHARS] or "unknown"


def as_hex(frame: bytes) -> str:
    """Lines of hexadecimal digits that ``bytes.fromhex`` reads."""
    lines = (frame[at : at + _LINE_BYTES].hex() for at in range(0, len(frame), _LINE_BYTES))
    return "".join(f"{line}\n" for line in lines)


def _remove(path: Path) -> None:
    """Remove what exists of a file that could not be written completely."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        log.debug("%s stays", path, exc_info=True)
