"""A private Muster in a notebook: a real ipykernel, with its event loop, whose cells run in threads of its executor."""

from __future__ import annotations

from pathlib import Path

import nbformat
import psutil
import pytest
from nbclient import NotebookClient

from tests.ray.programs import family, keepers_of, until_gone

pytestmark = pytest.mark.ring(name="ray")


@pytest.mark.parametrize("end", ["shutdown", "kill"])
def test_it_ends_with_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    cells = [
        "import asyncio, os, muster",
        "kafka = await asyncio.to_thread(muster.run)",
        "print(os.getpid(), kafka.topic('flights'))",
        "async with await asyncio.to_thread(muster.run) as other:\n    print(other.topic('flights'))",
        "print(kafka.topic('flights'), kafka)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(notebook, timeout=120, kernel_name="python3")
    with client.setup_kernel():
        for number, cell in enumerate(notebook.cells):
            client.execute_cell(cell, number)
        texts = ["".join(output.get("text", "") for output in cell.outputs) for cell in notebook.cells]
        pid, topic = texts[2].split()
        assert topic == "flights"
        assert texts[3] == "flights\n"
        assert texts[4].startswith("flights Cluster('127.0.0.1:")
        (keeper,) = keepers_of(int(pid))
        pids = family(keeper)
        if end == "kill":
            psutil.Process(int(pid)).kill()
            until_gone(*pids)
    until_gone(*pids)
    assert not [*tmp_path.glob("muster-run-*")]
