"""pyarrow, imported when it is used first. Import ``pa``, ``pc`` and ``pq`` from here.

Every actor has tables, but writes nothing for a while after its start, and pyarrow costs a process 0.2 s of processor
time and 20 MB. Half of that is numpy, which pyarrow imports with itself wherever it is installed, and as PySpark needs
pandas, there is that as well: pyarrow imports it for the first array, and again looks for it for the first time of day,
in 0.4 s and 40 MB. It needs neither for tables, and has no setting to prevent it; so actors call :func:`without_numpy`.
Of the allocators that pyarrow has, they use the system's: its own kept 6 MB for the rows of an idle coordinator.
``Table.to_pandas`` and ``Array.to_numpy`` do not work in such a process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.abc import MetaPathFinder
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any

_HIDDEN = ("numpy", "pandas")
_importing = Lock()


class _Hidden(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname in _HIDDEN:
            raise ModuleNotFoundError(f"no {fullname} for pyarrow in an actor", name=fullname)


def without_numpy(*, own_allocator: bool = False) -> None:
    """Have pyarrow look for numpy and pandas, and not find them, when it is used first.

    What this process has imported already stays. ``own_allocator``: pyarrow keeps it, here and in child processes.
    """
    if not own_allocator:
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    _Later.import_module = staticmethod(_import_alone)


def _import_alone(name: str) -> ModuleType:
    with _importing:
        if name in sys.modules:
            return sys.modules[name]
        finder = _Hidden()
        sys.meta_path.insert(0, finder)
        try:
            module, arrow = import_module(name), import_module("pyarrow")
            import_module("pyarrow.compute")
            arrow.array([])
            arrow.scalar(0, arrow.timestamp("ms", "UTC")).as_py()
            return module
        finally:
            sys.meta_path.remove(finder)


class _Later:
    """A module that is imported for its first attribute."""

    import_module: Callable[[str], ModuleType] = staticmethod(import_module)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(_Later.import_module(self._name), attribute)


if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pa, pc, pq = _Later("pyarrow"), _Later("pyarrow.compute"), _Later("pyarrow.parquet")

__all__ = ["pa", "pc", "pq", "without_numpy"]
