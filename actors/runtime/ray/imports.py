"""Where Ray's workers import from: as every process of this Python does, and nothing from the working directory.

By default Ray puts the driver's working directory first on its workers' ``sys.path``. If a command runs in a project,
packages there may have the names of libraries, or be called ``muster``.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

import muster
from muster.actors.runtime.ray.public_api import PUBLIC_API_ONLY, public_api_only

if TYPE_CHECKING:
    from ray.job_config import JobConfig


def job_config() -> JobConfig:
    """Return the JobConfig for every ``ray.init`` of Muster.

    With Ray's public API only, workers import as Ray has it, and their environment says so, too.
    """
    from ray.job_config import JobConfig

    if public_api_only():
        return JobConfig(runtime_env={"env_vars": {PUBLIC_API_ONLY: "1"}})

    class WithoutWorkingDirectory(JobConfig):
        def _runtime_env_has_working_dir(self) -> bool:
            """If true, Ray adds neither the driver's working directory nor its script's to the workers' path."""
            return True

    root = root_to_add()
    return WithoutWorkingDirectory(_py_driver_sys_path=[] if root is None else [root])


def root_to_add() -> str | None:
    """Return the folder of this process's ``muster`` if another process of this Python would import none or another.

    This is so in a checkout that is not installed and is imported from the working directory.
    """
    loaded = Path(muster.__file__).resolve()
    here = Path.cwd()
    elsewhere = [entry for entry in sys.path if entry and Path(entry) != here]
    others = (finder for finder in sys.meta_path if finder is not PathFinder)  # one is from an editable install
    specs = (PathFinder.find_spec("muster", elsewhere), *(finder.find_spec("muster", None) for finder in others))
    found = next((spec.origin for spec in specs if spec and spec.origin), None)
    return None if found and Path(found).resolve() == loaded else str(loaded.parents[1])


def let_processes_import() -> None:
    """Make the processes that this one starts import the same Muster, wherever they run."""
    os.environ.update(environment_to_import())


def environment_to_import() -> dict[str, str]:
    """Return the environment of a process that imports the same Muster, wherever it runs."""
    environment = dict(os.environ)
    if (root := root_to_add()) is not None:
        known = environment.get("PYTHONPATH", "").split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join([root, *(path for path in known if path and path != root)])
    return environment
