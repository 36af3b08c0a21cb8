"""A process in the role of a node: calls functions that are pickled to it, one after the other."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import IO, Any, Self, TypeVar

T = TypeVar("T")


class Nodes:
    """``with Nodes({"a": environment, ...}) as on_every_node``: a process for each."""

    def __init__(self, environments: Mapping[str, Mapping[str, str]]) -> None:
        self._environments = environments
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for name, environment in self._environments.items():
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", __name__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, at: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.kill()
            process.communicate()

    def __call__(self, function: Callable[..., T], /, *arguments: object) -> dict[str, T]:
        for name, process in self._processes.items():
            pickle.dump((function, (*arguments, name)), _open(process.stdin))
            _open(process.stdin).flush()
        return {name: pickle.load(_open(process.stdout)) for name, process in self._processes.items()}


def _open(pipe: IO[bytes] | None) -> IO[Any]:
    assert pipe is not None
    return pipe


def main() -> None:
    """Read calls, write results."""
    while True:
        try:
            function, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(function(*arguments), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
