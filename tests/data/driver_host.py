"""A Ray driver in a process of its own, which may be killed: runs functions that come pickled, one after the other.

Run as ``python -m tests.data.driver_host`` by :mod:`tests.data.driver`, with the address of a Ray in the environment.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
import traceback
from typing import IO, Any

import ray
import ray.cloudpickle as cloudpickle


def write(stream: IO[bytes], value: Any) -> None:
    data = cloudpickle.dumps(value)
    stream.write(struct.pack(">I", len(data)) + data)
    stream.flush()


def read(stream: IO[bytes]) -> Any:
    """Return the next value. Raises EOFError."""
    head = stream.read(4)
    if len(head) < 4:
        raise EOFError
    return pickle.loads(stream.read(*struct.unpack(">I", head)))


def main() -> None:
    requests, responses = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what Ray prints must not get among the responses
    ray.init(log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    while True:
        try:
            function, arguments = read(requests)
        except EOFError:
            return
        try:
            write(responses, (function(*arguments), None))
        except Exception as error:
            error.add_note(traceback.format_exc())
            write(responses, (None, error))


if __name__ == "__main__":
    main()
