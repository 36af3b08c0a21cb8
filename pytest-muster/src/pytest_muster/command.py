"""Finds the ``muster`` command."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


class NoMusterCommand(RuntimeError):
    """There is no ``muster`` command; the message says how to install one."""


def muster_command(given: str | None = None, requirement: str | None = None) -> Sequence[str]:
    """Return the command for ``muster``, with an absolute path. Raises NoMusterCommand.

    ``given``, if any, split as a shell splits it; else ``muster`` beside this Python; else on PATH; else uvx with the
    ``requirement``, if any: one for pip, which PyPI cannot resolve yet.
    """
    if given:
        first, *rest = shlex.split(given)
        found = shutil.which(first)
        if found is None:
            text = "does not exist or is not executable (also set by --muster-command and muster_command)"
            raise NoMusterCommand(f"MUSTER_COMMAND={first} {text}")
        return (str(Path(found).absolute()), *rest)
    for path in (str(Path(sys.executable).parent), None):
        found = shutil.which("muster", path=path)
        if found:
            return (str(Path(found).absolute()),)
    uvx = shutil.which("uvx") if requirement else None
    if uvx and requirement:
        return (str(Path(uvx).absolute()), "--from", requirement, "muster")
    raise NoMusterCommand(
        "there is no muster command beside this Python or on PATH"
        + (f", and no uvx to install {requirement}" if requirement else "")
        + _other_project()
        + ". Install Muster, in an environment of its own if you like, and set MUSTER_COMMAND to its muster; or set "
        "MUSTER_BOOTSTRAP, and MUSTER_HTTP for faults, to those of a Muster that runs"
    )


def _other_project() -> str:
    """Named where somebody has installed it for Muster."""
    try:
        found = version("muster")
    except PackageNotFoundError:
        return ""
    return f"; muster {found}, which is installed here, is another project: Muster's distribution is muster-kafka"
