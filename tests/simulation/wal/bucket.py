"""The way of a request to a bucket in memory, and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from muster.actors.object_storage.store import Backend, Condition, Listed, NoSuchObject, Stored, Unavailable
from tests.object_storage.memory import MemoryBucket
from tests.simulation.processes.process import Machine, Process

_TIMEOUT_MS = 10_000

T = TypeVar("T")


@dataclass(slots=True)
class Trouble:
    """Probabilities."""

    lost_request: float = 0.02
    lost_response: float = 0.04
    late: float = 0.05
    """That a request which got no response arrives after all, up to a minute later."""
    refused: float = 0.03
    """503."""
    conflict: float = 0.02
    """409 for a conditional write that met another request; nothing may be there. The library says that it exists."""
    slow: float = 0.05


class Link(Backend):
    """The way of one process to the bucket."""

    def __init__(self, machine: Machine, process: Process, bucket: MemoryBucket, trouble: Trouble) -> None:
        self._machine, self._process, self._bucket, self._trouble = machine, process, bucket, trouble

    async def create(self, name: str, content: bytes) -> str:
        return await self._conditional(f"create {name}", lambda: self._bucket.create(name, content))

    async def replace(self, name: str, content: bytes, etag: str) -> str:
        return await self._conditional(f"replace {name}", lambda: self._bucket.replace(name, content, etag))

    async def read(self, name: str) -> Stored:
        return await self._request(f"read {name}", lambda: self._bucket.read(name))

    async def read_range(self, name: str, start: int, size_bytes: int) -> bytes:
        return (await self.read(name)).content[start : start + size_bytes]

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Listed]:
        while page := await self._request(f"list {prefix}", partial(self._bucket.page, prefix, after)):
            for listed in page:
                yield listed
            after = page[-1].name

    async def delete(self, names: Collection[str]) -> None:
        """Delete one at a time, as far as it comes."""
        for name in names:
            await self._request(f"delete {name}", partial(self._bucket.delete, [name]))

    async def _conditional(self, what: str, effect: Callable[[], str]) -> str:
        def conflicts() -> str:
            raise Condition(f"{what}: a conflict")

        is_met = self._machine.chance.random() < self._trouble.conflict
        return await self._request(what, conflicts if is_met else effect)

    async def _request(self, what: str, effect: Callable[[], T]) -> T:
        chance, trouble, schedule = self._machine.chance, self._trouble, self._machine.schedule
        response: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def settle(give: Callable[[], None]) -> None:
            if not response.done():
                give()

        def fails(after_ms: float, text: str) -> None:
            error = Unavailable(text)
            self._process.after(after_ms, lambda: settle(lambda: response.set_exception(error)))

        def arrives(is_lost: bool) -> None:
            try:
                result = effect()
            except (Condition, NoSuchObject) as error:
                self._machine.note("%s: %s: %s", self._process.name, what, error)
                caught = error
                give = lambda: response.set_exception(caught)  # noqa: E731
            else:
                self._machine.note("%s: %s%s", self._process.name, what, ", without a response" if is_lost else "")
                give = lambda: response.set_result(result)  # noqa: E731
            if not is_lost:
                self._process.after(self._ms(), lambda: settle(give))

        if chance.random() < trouble.refused:
            fails(self._ms(), "SlowDown: reduce your request rate")
        elif chance.random() < trouble.lost_request:
            fails(_TIMEOUT_MS, "no response")
        elif chance.random() < trouble.lost_response:
            schedule.after(self._ms(), lambda: arrives(True))
            fails(_TIMEOUT_MS, "no response")
        elif chance.random() < trouble.late:
            schedule.after(chance.randint(_TIMEOUT_MS // 2, 6 * _TIMEOUT_MS), lambda: arrives(True))
            fails(_TIMEOUT_MS, "no response")
        else:
            schedule.after(self._ms(), lambda: arrives(False))
        return await response

    def _ms(self) -> int:
        chance = self._machine.chance
        return chance.randint(200, 3_000) if chance.random() < self._trouble.slow else chance.randint(1, 30)
