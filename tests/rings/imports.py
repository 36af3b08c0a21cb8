"""The files that a ring's tests are made of: those of their folders, and what they import."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath

from tests.imports import conftests, imported
from tests.rings.ring import Ring


def paths_of(ring: Ring) -> tuple[str, ...]:
    """As git's pathspecs. A folder counts with its data files, and without its subfolders."""
    own = {word for word in (*ring.paths, *shlex.split(ring.command)) if PurePosixPath(word).parts[:1] == ("tests",)}
    loaded = {each for path in map(PurePosixPath, own) for each in (path, *conftests(path))}
    folders = {file.parent for path in loaded for file in imported(path)}
    return (*sorted(own), *sorted(f":(glob){folder}/*" for folder in folders))
