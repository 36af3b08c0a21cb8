"""Keeps pandas out of the actors' processes.

Wherever pandas is installed, and PySpark needs it, pyarrow imports it for the first array that it makes. That costs an
actor 0.4 s of processor time and 40 MB, and pyarrow has no setting to prevent it. Table.to_pandas does not work in such
a process; no actor uses it.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

PANDAS = "pandas"


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == PANDAS:
            raise ModuleNotFoundError(f"no {PANDAS} for pyarrow in an actor", name=PANDAS)


def hide_pandas() -> None:
    """Have pyarrow look for pandas, and not find it, unless this process has imported pandas already."""
    if PANDAS in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow

        pyarrow.array([])
    finally:
        sys.meta_path.remove(finder)
