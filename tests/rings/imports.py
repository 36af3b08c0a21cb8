"""The files that a ring's tests are made of: those of their folders, and what they import."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath

from tests.imports import conftests, imported
from tests.rings.ring import Ring

_NOT_PY = ("[!p]*", "p[!y]*")
"""Suffixes of all other files than modules: git has no pathspec that excludes some of another one."""


def paths_of(ring: Ring) -> tuple[str, ...]:
    """Return git's pathspecs. Imported modules count with the data files beside them."""
    own = {word for word in (*ring.paths, *shlex.split(ring.command)) if PurePosixPath(word).parts[:1] == ("tests",)}
    loaded = {each for path in map(PurePosixPath, own) for each in (path, *conftests(path))}
    files = {file for path in loaded for file in imported(path)}
    data = [f":(glob){folder}/*.{suffix}" for folder in {file.parent for file in files} for suffix in _NOT_PY]
    return (*sorted(own), *sorted(map(str, files)), *sorted(data))
