"""The thread in which the user's code runs, beside the one that polls."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from muster.gateway.client.consuming.batches import Batch
from muster.gateway.client.consuming.handling import Handler


class Job:
    """A batch that is handled, or the making of the handler."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.done = threading.Event()
        self.error: BaseException | None = None
        """Set before ``done``."""


class HandlerThread:
    """Makes the handler and calls it, always in the same thread, as some libraries need it.

    A thread that never returns does not keep its process from ending.
    """

    def __init__(self, new_handler: Callable[[], Handler], handle: Callable[[Handler, Batch], None]) -> None:
        """Begin to make the handler, of which ``made`` is the job."""
        self._new_handler, self._handle = new_handler, handle
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.made = Job(Batch())
        threading.Thread(target=self._run, name="muster-handler", daemon=True).start()

    def submit(self, batch: Batch) -> Job:
        """Begin to handle a batch."""
        job = Job(batch)
        self._jobs.put(job)
        return job

    def close(self) -> None:
        """End the thread after its last job, without waiting for it."""
        self._jobs.put(None)

    def _run(self) -> None:
        try:
            handler = self._new_handler()
        except BaseException as error:
            self.made.error = error
            return
        finally:
            self.made.done.set()
        while (job := self._jobs.get()) is not None:
            try:
                self._handle(handler, job.batch)
            except BaseException as error:
                job.error = error
            finally:
                job.done.set()
