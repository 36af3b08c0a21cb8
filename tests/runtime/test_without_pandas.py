"""pyarrow imports pandas for its first array if it is installed; the actors' processes avoid that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WRITE_AND_READ = """
import sys
import pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet as pq
pq.write_table(pa.Table.from_pylist([{"a": 1}, {"a": 2}]), "table.parquet")
assert pq.read_table(["table.parquet"], filters=pc.field("a") == 1).to_pylist() == [{"a": 1}]
print("pandas" in sys.modules)
"""
HIDE = "from muster.actors.runtime.without_pandas import hide_pandas; hide_pandas()\n"


def output(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr


def test_tables_need_no_pandas(tmp_path: Path) -> None:
    assert output(HIDE + WRITE_AND_READ, tmp_path) == "False"


def test_pyarrow_alone_would_import_it(tmp_path: Path) -> None:
    """When this fails, pyarrow has changed, and ``muster.actors.runtime.without_pandas`` can be removed."""
    assert output(WRITE_AND_READ, tmp_path) == "True"


def test_who_has_pandas_keeps_it(tmp_path: Path) -> None:
    code = "import pandas, pyarrow\n" + HIDE + "print(pyarrow.table({'a': [1, 2]}).to_pandas()['a'].sum())"
    assert output(code, tmp_path) == "3"


def test_who_imports_it_later_has_it(tmp_path: Path) -> None:
    assert output(HIDE + "import pandas; print(pandas.Series([1, 2]).sum())", tmp_path) == "3"
