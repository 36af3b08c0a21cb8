"""A request of a connection, from when it is read until its response is sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from muster.actors.wire.kafka.codec import UndecodableRequest, UnknownApi
from muster.gateway.administration.requests import READERS
from muster.gateway.listener.administration import record
from muster.gateway.listener.api import LONG_BYTES, Api, Call, Cancel, Handler, LargeRequest, Reply
from muster.gateway.listener.complaints import BadRequest, Cause, Complaint
from muster.gateway.listener.gateway import RequestFaults
from muster.gateway.listener.limiting.charging import timer_for


class PendingRequest:
    """Serves one request; an :class:`~muster.gateway.listener.api.Responder`.

    Calls ``on_done`` once, when it has a reply, or a complaint after which the connection cannot continue.
    """

    __slots__ = (
        "_cancel",
        "_is_only_recorded",
        "_on_done",
        "_on_read",
        "_started_s",
        "api",
        "call",
        "complaint",
        "is_done",
        "is_read",
        "is_task",
        "response",
    )

    def __init__(
        self, api: Api, call: Call, on_done: Callable[[], None], on_read: Callable[[], None] = lambda: None
    ) -> None:
        """``on_read`` is called when a request that was large is read."""
        self.api = api
        self.call = call
        self.is_done = False
        self.is_task = False
        """Whether a task serves it."""
        self.response: Reply | None = None
        """None where Kafka sends no response."""
        self.complaint: Complaint | None = None
        self.is_read = True
        """False while it is too large to be read at once, and is read by turns."""
        self._on_done = on_done
        self._on_read = on_read
        self._cancel: Cancel | None = None
        self._is_only_recorded = False
        self._started_s = time.perf_counter()

    def start(self) -> None:
        """Forward the request; if that is not possible, start a task that runs the API's handler."""
        gateway, forward = self.call.gateway, self.api.forward
        is_plain = (gateway.faults is None or gateway.faults.is_idle) and not self.call.connection.tasks
        if gateway.quotas is not None and (timer := timer_for(self.call)) is not None:
            self.call.timer, is_plain = timer, False  # all of a task's time can be measured
        if forward is not None and is_plain:
            try:
                if gateway.authorizer is None:
                    self._cancel = forward(self.call, self)
                elif (confirm := self.call.try_guard(self.api.guard)) is not None:
                    self._cancel = forward(self.call, self)
                    if self._cancel is not None:
                        confirm()
            except LargeRequest:
                self.is_read = False
            except Exception as error:
                # Later: many such requests behind one that waits would otherwise start each other, ever deeper.
                asyncio.get_running_loop().call_soon(self.fail, error)
                return
        self.call.is_forwarded = self._cancel is not None
        if self._cancel is None:
            self.is_task = True
            self.is_read = self.is_read and not self._is_large()
            timer = self.call.timer
            work = self._serve() if timer is None else timer.measured(self._serve)
            task = asyncio.get_running_loop().create_task(work)
            self._cancel = task.cancel
            task.add_done_callback(self._served)

    def _is_large(self) -> bool:
        """Whether it must be read by turns, before any later request of the connection is served."""
        if len(self.call.frame) <= LONG_BYTES:
            return False
        try:
            self.call.entity()
        except LargeRequest:
            return True
        except (UndecodableRequest, UnknownApi):  # the handler reports it, or responds to any version
            pass
        return False

    def cancel(self) -> None:
        """Give the request up; its response is not sent, and ``on_done`` is not called.

        An administrative one is served to its end, since actors may be doing it: what it changed has to be recorded.
        """
        if self.is_done:
            return
        self._end("CLOSED")
        cancel, self._cancel = self._cancel, None
        if self.api.key in READERS and self.call.gateway.trail is not None:
            self._is_only_recorded = True
            return
        if cancel is not None:
            cancel()
        self.call.peeked = None

    async def _serve(self) -> Reply | None:
        faults, handler = self.call.gateway.faults, self.api.handler
        if self.call.gateway.authorizer is not None:
            handler = partial(self.api.guard.serve, self.api)
        if faults is not None:
            handler = partial(_with_faults, faults, self.api.name, handler)
        if not self.is_read:
            await self._read()
        try:
            reply = await handler(self.call)
        except LargeRequest:
            await self._read()
            reply = await handler(self.call)
        return reply if reply is None else await self.call.written(reply)

    async def _read(self) -> None:
        await self.call.read()
        self.is_read = True
        asyncio.get_running_loop().call_soon(self._on_read)

    def _served(self, task: asyncio.Task[Reply | None]) -> None:
        if self.is_done:
            if not task.cancelled() and task.exception() is None:  # retrieved, or asyncio logs it
                self.reply(task.result())
        elif task.cancelled():
            self.complaint = Complaint(Cause.GIVEN_UP, "a request was given up")
            self._done("CLOSED")
        elif (error := task.exception()) is not None:
            self.fail(error)
        else:
            self.reply(task.result())

    def reply(self, reply: Reply | None) -> None:
        """See :meth:`Responder.reply`."""
        if self._is_only_recorded and reply is not None:
            record(self.call, reply)
        if self.is_done:
            return
        self.response = reply
        if self.api.key in READERS and reply is not None and self.call.gateway.trail is not None:
            record(self.call, reply)
        self._done("ANSWERED")
        if self.response is not None:  # it waits for those before it
            self.response.give_back()

    def fail(self, error: BaseException) -> None:
        """See :meth:`Responder.fail`."""
        if self.is_done:
            return
        name = self.api.name
        if isinstance(error, BadRequest):
            self.complaint = error.complaint
            self._done("CLOSED")
        elif isinstance(error, UndecodableRequest):
            self.complaint = Complaint(Cause.UNREADABLE, str(error), name)
            self._done("UNDECODABLE")
        else:
            connection, version = self.call.connection, self.call.header.api_version
            text = "%s version %d of %s failed"
            fields = {**self.call.header.log_fields, **connection.log_fields, "api": name}
            complaints = self.call.gateway.complaints
            arguments = (f"failed {name}", connection.host, text, name, version, connection.id)
            complaints.exception(error, *arguments, fields=fields)
            self.complaint = Complaint(Cause.INTERNAL_ERROR, "an internal error, see above", name)
            self._done("CLOSED")

    def _done(self, outcome: str) -> None:
        self._cancel = None  # the task has the error, whose traceback has this request: a cycle
        self._end(outcome)
        self.call.peeked = None  # which may have the call
        self._on_done()

    def _end(self, outcome: str) -> None:
        self.is_done = True
        api, version = self.api, self.call.header.api_version
        duration_s = time.perf_counter() - self._started_s
        self.call.gateway.metrics.request(api.name, version if version in api.versions else -1, outcome, duration_s)


async def _with_faults(faults: RequestFaults, api_name: str, handler: Handler, call: Call) -> Reply | None:
    served: Reply | None = await faults.serve(call, api_name, handler)
    return served
