"""Killed stores without a process: the store dies between two changes of the file system."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.actors.tables.store import SpooledStore


class Killed(BaseException):
    pass


def kill_at(patch: pytest.MonkeyPatch, step: int, *, writes: bool = False) -> None:
    """Let the process die before its ``step``-th change of the file system (and make no later one: it is dead).

    ``writes``: lines written to a spool are such changes, too.
    """
    done = 0

    def guarded(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal done
            if done >= step:
                raise Killed
            done += 1
            return original(*args, **kwargs)

        return call

    for name in ("replace", "rename", "unlink", "rmdir", "mkdir", "write_bytes"):
        patch.setattr(Path, name, guarded(getattr(Path, name)))
    if writes:
        patch.setattr(os, "write", guarded(os.write))


def die(store: SpooledStore[Any]) -> None:
    """Release the lock of a killed process's store, like the kernel; its files stay."""
    assert store._folder is not None
    store._folder.release()
