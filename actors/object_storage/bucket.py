"""The bucket itself, through the library obstore.

Its calls block in threads of this module: two thirds of the time of its asynchronous ones, which start threads of
their own that outlive the interpreter and abort it now and then. A process that forks must not have used it before.

It makes one attempt for each call, within a time limit. obstore repeats requests by itself, and a conditional one that
took effect is then refused; :mod:`muster.actors.object_storage.store` has to see the first one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, TypeVar

import obstore
from obstore import exceptions
from obstore.store import from_url

from muster.actors.object_storage.location import Location
from muster.actors.object_storage.store import (
    Backend,
    Condition,
    Listed,
    NoSuchObject,
    ObjectStorageError,
    Refused,
    Stored,
    Unavailable,
)

REQUEST_TIMEOUT_S = 10.0
"""Limit of one attempt. It bounds how long a connection that died without a word holds back what waits."""
_CONNECT_TIMEOUT_S = 5.0
_THREADS = ThreadPoolExecutor(max_workers=32, thread_name_prefix="object-storage")
_PAGE = 1000
_MAX_REASON = 300
_SERVICE_ERROR = re.compile(r"<Code>([^<]*)</Code>\s*<Message>([^<]*)</Message>")
_REQUEST = re.compile(r"Error performing (\w+ \S+) in \S+ - (.*)")
_QUERY = re.compile(r"(?<=\S)\?\S+")

T = TypeVar("T")


class Bucket(Backend):
    """Endpoint, region and credentials come from the environment or from the host, as obstore documents."""

    def __init__(self, location: Location, *, request_timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """Connect to nothing yet. Raises Refused if the environment has settings that obstore does not take."""
        self.location = location
        try:
            self._store = from_url(
                str(location),
                client_options={
                    "allow_http": True,  # for an endpoint whose URL in the environment is one
                    "timeout": timedelta(seconds=request_timeout_s),
                    "connect_timeout": timedelta(seconds=min(_CONNECT_TIMEOUT_S, request_timeout_s)),
                },
                retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=request_timeout_s)},
            )
        except exceptions.BaseError as error:
            raise _translated(str(location), error) from error

    async def create(self, name: str, content: bytes) -> str:
        return await self._put(name, content, "create")

    async def replace(self, name: str, content: bytes, etag: str) -> str:
        return await self._put(name, content, {"e_tag": etag})

    async def _put(self, name: str, content: bytes, mode: Any) -> str:
        # One request: a multipart upload has other conditions.
        put = await _run(name, lambda: obstore.put(self._store, name, content, mode=mode, use_multipart=False))
        return _etag(name, put["e_tag"])

    async def read(self, name: str) -> Stored:
        def get() -> Stored:
            got = obstore.get(self._store, name)
            return Stored(bytes(got.bytes()), _etag(name, got.meta["e_tag"]))

        return await _run(name, get)

    async def read_range(self, name: str, start: int, size_bytes: int) -> bytes:
        return await _run(name, lambda: bytes(obstore.get_range(self._store, name, start=start, length=size_bytes)))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Listed]:
        """List as :meth:`Backend.list`."""
        pages = await _run(
            prefix, lambda: obstore.list(self._store, prefix.rstrip("/"), offset=after or None, chunk_size=_PAGE)
        )
        while page := await _run(prefix, lambda: next(pages, None)):
            for meta in page:
                yield Listed(meta["path"], meta["size"], meta["last_modified"].timestamp())

    async def delete(self, names: Collection[str]) -> None:
        if not names:
            return
        try:
            await _run(f"{len(names)} objects", lambda: obstore.delete(self._store, list(names)))
        except NoSuchObject:  # a service may say so, and then has deleted the others
            return


async def _run(name: str, call: Callable[[], T]) -> T:
    try:
        return await asyncio.get_running_loop().run_in_executor(_THREADS, call)
    except (exceptions.BaseError, OSError) as error:
        raise _translated(name, error) from error


def _translated(name: str, error: Exception) -> ObjectStorageError:
    reason = f"{name}: {_reason(error)}"
    match error:
        case FileNotFoundError():
            # A bucket that does not exist responds 404 as well.
            return Refused(reason) if "NoSuchBucket" in str(error) else NoSuchObject(reason)
        case exceptions.AlreadyExistsError() | exceptions.PreconditionError() | exceptions.NotModifiedError():
            return Condition(reason)
        case exceptions.PermissionDeniedError() | exceptions.UnauthenticatedError():
            return Refused(reason)
        case exceptions.InvalidPathError() | exceptions.NotSupportedError() | exceptions.UnknownConfigurationKeyError():
            return Refused(reason)
        case _:
            return Unavailable(reason)


def _reason(error: Exception) -> str:
    """Return what the service says, or the first line of the error; no query of a URL: one of Azure's is signed."""
    text = str(error).partition("Debug source")[0]
    if said := _SERVICE_ERROR.search(text):
        return f"{said[1]}: {said[2]}"
    shown = " ".join(_QUERY.sub("", text).split())
    if request := _REQUEST.search(shown):
        shown = f"{request[1]}: {request[2]}"
    return shown if len(shown) <= _MAX_REASON else f"{shown[:_MAX_REASON]}..."


def _etag(name: str, etag: str | None) -> str:
    """Raise Refused if there is none: nothing could then be replaced safely."""
    if not etag:
        raise Refused(f"{name}: the service returns no ETag")
    return etag
