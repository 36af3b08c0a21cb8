"""pyarrow imports numpy, and pandas for its first array, if they are installed; the actors' processes avoid that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WRITE_AND_READ = """
import sys
from muster.actors.tables.arrow import pa, pc, pq
assert "pyarrow" not in sys.modules
table = pa.table({"a": [2, 1], "at": pa.array([2, 1], pa.timestamp("ms", "UTC"))})
pq.write_table(table.sort_by("a"), "table.parquet")
(row,) = pq.read_table(["table.parquet"], filters=pc.field("a") == 1).to_pylist()
assert row["at"].timestamp() == 0.001
print("numpy" in sys.modules, "pandas" in sys.modules)
"""
WITHOUT = "from muster.actors.tables.arrow import without_numpy; without_numpy()\n"


def output(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr


def test_tables_need_neither(tmp_path: Path) -> None:
    assert output(WITHOUT + WRITE_AND_READ, tmp_path) == "False False"


def test_rows_are_in_the_memory_of_the_system(tmp_path: Path) -> None:
    use = "from muster.actors.tables.arrow import pa; print(pa.default_memory_pool().backend_name)"
    assert output(WITHOUT + use, tmp_path) == "system"


def test_pyarrow_alone_would_import_both(tmp_path: Path) -> None:
    """When this fails, pyarrow has changed, and ``without_numpy`` can be removed."""
    assert output(WRITE_AND_READ, tmp_path) == "True True"


def test_who_has_them_keeps_them(tmp_path: Path) -> None:
    use = "from muster.actors.tables.arrow import pa; print(pa.table({'a': [1, 2]}).to_pandas()['a'].sum())"
    assert output("import pandas, pyarrow\n" + WITHOUT + use, tmp_path) == "3"


def test_who_imports_them_later_has_them(tmp_path: Path) -> None:
    use = "import pandas; print(pandas.Series([1, 2]).sum())"
    assert output(WITHOUT + WRITE_AND_READ + use, tmp_path).endswith("3")
