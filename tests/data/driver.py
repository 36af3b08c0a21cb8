"""A Ray driver of the tests, as a process that may be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from muster.gateway.cli.storage.directory import read_state
from tests.data.driver_host import read, write
from tests.muster_process import Muster

_ROOT = Path(__file__).parents[2]
_END_S = 60


class DriverKilled(Exception):
    """The driver's process ended before it responded."""


def environment(muster: Muster) -> dict[str, str]:
    """Return the environment in which a program's ``ray.init()`` connects to the Ray of that Muster."""
    state = read_state(muster.storage)
    assert state is not None
    return {
        **os.environ,
        "RAY_ADDRESS": state.ray_address,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(state.ray_token_path),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }


class Driver:
    """``with Driver(environment, log) as driver: driver.run(function, argument)``."""

    def __init__(self, variables: Mapping[str, str], log: Path) -> None:
        """``variables``: the environment, in which ``ray.init()`` connects to a Ray."""
        self.log = log
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.data.driver_host"],
                cwd=_ROOT,
                env=variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )

    def begin(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Let the driver call the function, which the driver imports."""
        assert self._process.stdin is not None
        write(self._process.stdin, (function, arguments))

    def result(self) -> Any:
        """Return what the function returns, or raise what it raises. Raises DriverKilled."""
        assert self._process.stdout is not None
        try:
            value, error = read(self._process.stdout)
        except EOFError:
            raise DriverKilled(self.log.read_text(errors="replace")[-2000:]) from None
        if error is not None:
            raise error
        return value

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the function in the driver and return its result."""
        self.begin(function, *arguments)
        return self.result()

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            assert self._process.stdout is not None
            self._process.stdout.close()
