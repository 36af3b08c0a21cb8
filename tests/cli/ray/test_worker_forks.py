"""Workers of Muster's actors are forks of a process that has imported everything; others start as Ray starts them."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.gateway.cli.ray import worker_forks, worker_launch
from muster.gateway.cli.ray.small_ray import start_forks
from tests.zookeeper_fixture import eventually

WORKER = """
import json, os, resource, sys
arrow = sys.modules.get("ray._private.arrow_serialization")
print(json.dumps({
    "arguments": sys.argv[1:], "name": __name__, "folder": os.getcwd(), "mark": os.environ.get("MARK"),
    "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    "path": sys.path,
    "leads_group": os.getpgrp() == os.getpid(),
    "has_actors": "muster.gateway.actor" in sys.modules,
    "without_arrow": arrow is not None and not hasattr(arrow, "__file__"),
    "schemas": sum(name.startswith("kio.schema.") for name in sys.modules),
}))
"""
OPTIONS = ("--language=PYTHON", "--serialized-runtime-env-context={}", "--worker-id=7")
ACTOR = "01000000"
OPEN_FILES = 500
"""The limit of what starts a worker, which is not that of the process that forks: Ray raises its own."""
HARD_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("forks") / "s"
    with start_forks(path) as process:
        yield path
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(100) == 0


def started(
    folder: Path, forks: Path, *options: str, job: str = ACTOR, program: str = "default_worker.py"
) -> dict[str, Any]:
    """Run the worker; return its output."""
    (folder / "default_worker.py").write_text(WORKER)
    setup = folder / "ray" / "setup_worker.py"
    setup.parent.mkdir(exist_ok=True)
    setup.write_text(WORKER)
    environment = {**os.environ, worker_launch.FORKS: str(forks), worker_launch.SETUP: str(setup)}
    done = subprocess.run(
        [sys.executable, worker_launch.__file__, program, *options],
        cwd=folder,
        env={**environment, "RAY_JOB_ID": job, "MARK": "x"},
        stdout=subprocess.PIPE,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, HARD_LIMIT)),
    )
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def test_actor_is_forked_with_all_that_its_process_would_have(tmp_path: Path, forks: Path) -> None:
    for _ in range(2):
        assert (
            started(tmp_path, forks, *OPTIONS).items()
            >= {
                "arguments": ["--worker-id=7"],
                "name": "__main__",
                "folder": str(tmp_path),
                "mark": "x",
                "open_files": OPEN_FILES,
                "leads_group": True,
                "has_actors": True,
                "without_arrow": True,
            }.items()
        )


def test_actor_imports_nothing_from_the_folder_of_the_program_that_forks(tmp_path: Path, forks: Path) -> None:
    """Its modules have names that a library may have, too."""
    folder = Path(worker_launch.__file__).resolve().parent
    assert folder not in [Path(entry).resolve() for entry in started(tmp_path, forks, *OPTIONS)["path"]]


def test_schemas_are_loaded_while_nothing_is_requested(tmp_path: Path, forks: Path) -> None:
    first = started(tmp_path, forks, *OPTIONS)["schemas"]
    eventually(lambda: started(tmp_path, forks, *OPTIONS)["schemas"] > first + 50, "a fork has more of them")


@pytest.mark.parametrize(
    ("job", "program", "options"),
    [
        ("02000000", "default_worker.py", OPTIONS),
        ("02000000", "java", ("-Dray.x=1", "--language=JAVA", "--serialized-runtime-env-context={}")),
        (ACTOR, "java", ("-Dray.x=1", "--language=JAVA", "--serialized-runtime-env-context={}")),
        (ACTOR, "default_worker.py", ("--language=PYTHON", '--serialized-runtime-env-context={"env_vars":{}}')),
        (ACTOR, "default_worker.py", (*OPTIONS, "--worker-type=SPILL_WORKER")),
    ],
    ids=["another driver's", "an executor of RayDP", "Java", "runtime environment", "spills objects"],
)
def test_any_other_worker_starts_as_ray_starts_it(
    tmp_path: Path, forks: Path, job: str, program: str, options: tuple[str, ...]
) -> None:
    found = started(tmp_path, forks, *options, job=job, program=program)
    assert found["arguments"] == [program, *options]
    assert not found["has_actors"]


def test_actor_starts_as_ray_starts_it_where_nothing_forks(tmp_path: Path) -> None:
    found = started(tmp_path, tmp_path / "none", *OPTIONS)
    assert found["arguments"] == ["default_worker.py", *OPTIONS]


def test_a_launcher_that_has_given_up_gets_no_second_process(tmp_path: Path, forks: Path) -> None:
    started(tmp_path, forks, *OPTIONS)  # so that everything is imported
    program = tmp_path / "late.py"
    program.write_text("print('a second one', flush=True)")
    worker = {"program": str(program), "arguments": [], "folder": str(tmp_path)}
    request = {**worker, "environment": {}, "open_files": (OPEN_FILES, HARD_LIMIT)}
    reader, writer = os.pipe()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(forks))
        socket.send_fds(connection, [f"{json.dumps(request)}\n".encode()], [writer, writer])
    os.close(writer)
    with os.fdopen(reader) as output:
        assert output.read() == ""
    assert started(tmp_path, forks, *OPTIONS)["has_actors"]


def test_what_is_imported_before_ray_does_not_import_it() -> None:
    """Ray reads the environment of its worker when it is imported, so each fork has to be able to set it."""
    imports = f"from importlib import import_module; [import_module(name) for name in {worker_forks._WITHOUT_RAY!r}]"
    code = f"{imports}; import sys; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
