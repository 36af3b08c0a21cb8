"""Forks the workers of Muster's actors from one process that has imported their modules. A program of its own.

Ray starts two interpreters for each worker, one after the other, and each imports Ray: with Muster's modules 1.2 s of
processor time and 70 MB for each actor. Most of that is shared by the processes that this one forks, and takes no time
again. It has one thread when it forks, and nothing of Ray runs in it. While nothing is requested, it loads the schemas
of the APIs, which actors that start or restart later share, too.

:mod:`muster.gateway.cli.ray.worker_launch`, which the raylet starts in place of a worker, connects to it.

usage: worker_forks.py FD, that of a listening socket, with stdin a pipe; ends when that does.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import runpy
import select
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

MAX_REQUEST_BYTES = 1 << 20
FILES = 2
"""A request comes with the launcher's stdout and stderr."""
READY, GO, FORKED = b"r", b"g", b"f"
"""One process becomes the worker: a launcher that has given up meanwhile does not say GO to READY."""
_GO_S = 10.0
_WITHOUT_RAY = ("muster.gateway.apis", "muster.gateway.listener.server", "muster.gateway.http.server")
"""Modules imported while Ray starts."""
_WITH_RAY = ("ray._private.workers.default_worker", "muster.actors.controller.actor", "muster.gateway.actor")
_WITHOUT_GRAMMAR = "muster.gateway.cli.ray.without_iri_grammar"
_SCHEMAS = "muster.gateway.apis.schemas"
_IDLE_MS = 100
"""Pause of requests after which the schemas of one more version are loaded."""
_READ_BY_RAY = ("RAY_JOB_ID", "RAY_RAYLET_PID")
_OOM_SCORE = "1000"
"""Value that Ray's raylets set for their workers (``worker_oom_score_adjustment``)."""


def main(fd: int) -> None:
    """Serve until stdin ends. In a forked process, run the worker."""
    with socket.socket(fileno=fd) as listener:
        gc.disable()  # it would write to pages that will be shared
        import_module(_WITHOUT_GRAMMAR).without_iri_grammar()
        for module in _WITHOUT_RAY:
            import_module(module)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for the workers' ends
        request = _serve(listener)
    if request is not None:
        _become(**request)


def _serve(listener: socket.socket) -> dict[str, Any] | None:
    """Return None if stdin has ended; in a forked process, its task."""
    poll = select.poll()
    poll.register(sys.stdin.fileno(), 0)  # POLLHUP is always reported
    poll.register(listener, select.POLLIN)
    schemas: Iterator[None] | None = None
    while True:
        found = poll.poll(None if schemas is None else _IDLE_MS)
        if any(fd != listener.fileno() for fd, _ in found):
            return None
        if schemas is not None and not found:
            schemas = _after_one(schemas)
            continue
        with listener.accept()[0] as connection, suppress(OSError, ValueError):
            request, files = _receive(connection)
            if _import_ray(request["environment"]):
                schemas = import_module(_SCHEMAS).load_schemas()
            goes = _goes(connection)
            if goes and os.fork() == 0:
                return {**request, "files": files}
            for file in files:
                os.close(file)
            if goes:
                connection.sendall(FORKED)


def _after_one(schemas: Iterator[None]) -> Iterator[None] | None:
    """Load those of one version. None at the end, and if that fails: then each is loaded where it is needed."""
    try:
        next(schemas)
    except Exception:
        return None
    return schemas


def _goes(connection: socket.socket) -> bool:
    """Return whether the launcher still waits, and leaves the start of the worker to this process."""
    connection.settimeout(_GO_S)
    with suppress(OSError):
        connection.sendall(READY)
        return connection.recv(1) == GO
    return False


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    data, files, _, _ = socket.recv_fds(connection, MAX_REQUEST_BYTES, FILES)
    while not data.endswith(b"\n") and (more := connection.recv(MAX_REQUEST_BYTES)):
        data += more
    return json.loads(data), files


def _import_ray(environment: dict[str, str]) -> bool:
    """Import Ray once, and return True from then on: Ray reads these at its import, and all actors have the same."""
    if _WITH_RAY[-1] in sys.modules:
        return False
    os.environ.update({name: environment[name] for name in _READ_BY_RAY if name in environment})
    for module in _WITH_RAY:
        import_module(module)
    gc.collect()
    gc.freeze()
    return True


def _become(
    program: str,
    arguments: list[str],
    environment: dict[str, str],
    folder: str,
    open_files: tuple[int, int],
    files: list[int],
) -> None:
    """Become the worker that the launcher would have been."""
    os.setpgid(0, 0)  # when a worker ends, its raylet ends all of its process group
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, file in enumerate((null, *files)):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_NOFILE, open_files)  # Ray raises it after this process has started
    os.environ.clear()
    os.environ.update(environment)
    Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
    from muster.actors.runtime.ray.light_worker import without_arrow_serialization

    without_arrow_serialization()
    gc.enable()
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main(int(sys.argv[1]))
