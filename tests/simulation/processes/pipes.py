"""Connections between processes: bytes in order, each way, which may be held up; the end of a process ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from tests.simulation.processes.process import Process


class Pipe:
    """Connects two protocols, as a socket does; each runs in its own process."""

    def __init__(self, client: Process, to_client: Any, server: Process, to_server: Any) -> None:
        self.disturbed_until_ms = 0
        """Until when it was held up last."""
        ends = _End(self, client, to_client), _End(self, server, to_server)
        ends[0].other, ends[1].other = ends[1], ends[0]
        for end in ends:
            end.process.at_end.append(end.process_ended)
            end.process.after(1, end.opened)

    def hold_up(self, ms: int, now_ms: int) -> None:
        """Nothing arrives for so long; nothing is lost."""
        self.disturbed_until_ms = max(self.disturbed_until_ms, now_ms + ms)


class _End(asyncio.Transport):
    """The transport of one of the two protocols."""

    other: _End

    def __init__(self, pipe: Pipe, process: Process, protocol: Any) -> None:
        super().__init__()
        self.process = process
        self._pipe = pipe
        self._protocol = protocol
        self._is_open = True
        self._is_made = False
        self._is_lost = False
        self._arrives_ms = 0

    def opened(self) -> None:
        if not self._is_lost:
            self._is_made = True
            self._protocol.connection_made(self)

    def process_ended(self) -> None:
        """Close its sockets, like the kernel."""
        self._is_open = False
        self._arrive(self.other._lose)

    def _lose(self) -> None:
        if not self._is_lost:
            self._is_lost, self._is_open = True, False
            if self._is_made:
                self._protocol.connection_lost(None)

    def _arrive(self, do: Callable[[], object]) -> None:
        """Happens at the other end, behind everything before it."""
        machine = self.process.machine
        now_ms = machine.schedule.now_ms
        latency_ms = machine.chance.choice([0, 0, 1])
        self._arrives_ms = max(now_ms + latency_ms, self._arrives_ms, self._pipe.disturbed_until_ms)
        self.other.process.after(self._arrives_ms - now_ms, do)

    def write(self, data: Any) -> None:
        if self._is_open:
            received = bytes(data)
            self._arrive(lambda: self.other._protocol.data_received(received) if self.other._is_open else None)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._arrive(self.other._lose)
            self.process.after(0, self._lose)

    abort = close

    def is_closing(self) -> bool:
        return not self._is_open

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is slow to be read."""

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default
