"""The bucket itself, through the library obstore.

Its calls block in threads of this module. They cost less than its asynchronous ones, which start threads of their own
that outlive the interpreter and abort it now and then. A process that forks must not have used it before, and one that
ends waits for the calls that have begun, up to their time limit.

It makes one attempt for each call. obstore repeats requests by itself, and a conditional one that took effect is then
refused; :mod:`muster.actors.object_storage.store` has to see the first one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
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

REQUEST_TIMEOUT_S = 30.0
"""Limit of one attempt with its content. It bounds how long a connection that died without a word holds back what
waits for it, and which line is too slow: 4 MiB have to get through in that time."""
_CONNECT_TIMEOUT_S = 5.0
_WRITING = ThreadPoolExecutor(max_workers=32, thread_name_prefix="object-storage-write")
_READING = ThreadPoolExecutor(max_workers=32, thread_name_prefix="object-storage-read")
"""Separate ones: a log that is being opened reads much, and must not hold up those that are written."""
_PAGE = 1000
_MAX_REASON = 300
_SERVICE_ERROR = re.compile(r"<Code>([^<]*)</Code>\s*<Message>([^<\n]*)")
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
        return await self._put(name, content, _version(etag))

    async def _put(self, name: str, content: bytes, mode: Any) -> str:
        # One request: a multipart upload has other conditions.
        call = partial(obstore.put, self._store, name, content, mode=mode, use_multipart=False)
        try:
            return _etag(name, await _run(_WRITING, name, call))
        except NoSuchObject as error:  # the bucket or the container
            raise Refused(str(error)) from error

    async def read(self, name: str) -> Stored:
        def get() -> Stored:
            got = obstore.get(self._store, name)
            return Stored(bytes(got.bytes()), _etag(name, got.meta))

        return await _unconditional(_run(_READING, name, get))

    async def read_range(self, name: str, start: int, size_bytes: int) -> bytes:
        call = partial(obstore.get_range, self._store, name, start=start, length=size_bytes)
        return bytes(await _unconditional(_run(_READING, name, call)))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Listed]:
        """List as :meth:`Backend.list`."""
        call = partial(obstore.list, self._store, prefix.rstrip("/"), offset=after or None, chunk_size=_PAGE)
        pages = await _unconditional(_run(_READING, prefix, call))
        while page := await _unconditional(_run(_READING, prefix, partial(next, pages, None))):
            for meta in page:
                yield Listed(meta["path"], meta["size"])

    async def delete(self, names: Collection[str]) -> None:
        if not names:
            return
        try:
            await _unconditional(
                _run(_WRITING, f"{len(names)} objects", partial(obstore.delete, self._store, [*names]))
            )
        except NoSuchObject:  # Google Cloud Storage and Azure stop at the first that does not exist
            for name in names:
                with suppress(NoSuchObject):
                    await _unconditional(_run(_WRITING, name, partial(obstore.delete, self._store, [name])))


async def _run(threads: ThreadPoolExecutor, name: str, call: Callable[[], T]) -> T:
    try:
        return await asyncio.get_running_loop().run_in_executor(threads, call)
    except (exceptions.BaseError, OSError) as error:
        raise _translated(name, error) from error


async def _unconditional(request: Awaitable[T]) -> T:
    """Return the result of a request without a condition. What is refused like one is a conflict with another."""
    try:
        return await request
    except Condition as error:
        raise Unavailable(str(error)) from error


def _translated(name: str, error: Exception) -> ObjectStorageError:
    reason = f"{name}: {_reason(error)}"
    match error:
        case FileNotFoundError():
            is_bucket = any(code in str(error) for code in ("NoSuchBucket", "ContainerNotFound"))
            return Refused(reason) if is_bucket else NoSuchObject(reason)
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


def _etag(name: str, meta: Mapping[str, Any]) -> str:
    """Return ETag and version of an object in one: S3 and Azure compare the former, Google Cloud Storage the latter.

    Raises Refused if there is neither: nothing could then be replaced safely.
    """
    if not meta["e_tag"] and not meta["version"]:
        raise Refused(f"{name}: the service returns no ETag")
    return f"{meta['e_tag'] or ''} {meta['version'] or ''}"


def _version(etag: str) -> dict[str, str]:
    """Return obstore's form of :func:`_etag`."""
    e_tag, _, version = etag.rpartition(" ")
    return {name: value for name, value in (("e_tag", e_tag), ("version", version)) if value}
