"""Starts a worker: one of Muster's actors as a fork, any other as Ray does. A program of its own, stdlib only.

A raylet of Muster's own Ray runs this in place of Ray's ``setup_worker.py``. Muster's actors are those of the first
job, the one of ``muster up``; other drivers' workers must not have Muster's modules imported. If the process that forks
(:mod:`muster.gateway.cli.ray.worker_forks`) does not respond, all is as Ray does it.

usage: worker_launch.py PROGRAM ARGUMENT..., with the process's socket in ``MUSTER_WORKER_FORKS`` and the path of
``setup_worker.py`` in ``MUSTER_SETUP_WORKER``.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
from pathlib import Path

FORKS = "MUSTER_WORKER_FORKS"
SETUP = "MUSTER_SETUP_WORKER"
_READY, _GO, _FORKED = b"r", b"g", b"f"
_TIMEOUT_S = 30.0
"""Limit of an import of Ray, which the first worker waits for."""
_OURS = "01000000"
_CONTEXT, _LANGUAGE, _TYPE = "--serialized-runtime-env-context=", "--language=", "--worker-type="


def main(program: str, *arguments: str) -> None:
    """Return when a worker was forked; does not return if this process becomes it."""
    if not (_is_actor(arguments) and _forked(program, _for_worker(arguments))):
        os.execv(sys.executable, [sys.executable, os.environ[SETUP], program, *arguments])


def _is_actor(arguments: tuple[str, ...]) -> bool:
    """Return whether the worker is for the first job, in Python, and without a runtime environment."""
    options = {argument for argument in arguments if argument.startswith((_CONTEXT, _LANGUAGE, _TYPE))}
    return os.environ.get("RAY_JOB_ID") == _OURS and options <= {
        f"{_CONTEXT}{{}}",
        f"{_LANGUAGE}PYTHON",
        f"{_TYPE}WORKER",
    }


def _for_worker(arguments: tuple[str, ...]) -> list[str]:
    return [argument for argument in arguments if not argument.startswith((_CONTEXT, _LANGUAGE))]


def _forked(program: str, arguments: list[str]) -> bool:
    request = {
        "program": program,
        "arguments": arguments,
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
    }
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_TIMEOUT_S)
            connection.connect(os.environ[FORKS])
            socket.send_fds(connection, [f"{json.dumps(request)}\n".encode()], [1, 2])
            if connection.recv(1) != _READY:
                return False
            connection.settimeout(None)  # from here on, only the end of that process makes it this one's task again
            connection.sendall(_GO)
            return connection.recv(1) == _FORKED
    except (OSError, KeyError):
        return False


if __name__ == "__main__":
    main(*sys.argv[1:])
