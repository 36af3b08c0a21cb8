"""Atomic writes of files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_MAX_NAME_CHARS = 100


def write_atomically(path: Path, content: str | bytes, *, mode: int = 0o600) -> None:
    """Write text, as UTF-8, or bytes to ``path``; a reader sees all of it or the previous content.

    Raises OSError: nothing has changed.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:_MAX_NAME_CHARS]}.")
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(handle)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
