"""The content of a partition's files, whichever process writes to them at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from muster.actors.log.files.manifest import Manifest, manifests
from muster.actors.log.files.segment import SegmentName
from muster.actors.log.format.batch import iter_headers

Counted = Mapping[str, bytes]
"""Bytes by file name."""


def counted(folder: Path) -> Counted:
    """Return the log according to the highest manifest, by file.

    It has closed segments up to their ends, and its epoch's files.
    """
    while True:
        try:
            return _counted(folder)
        except FileNotFoundError:  # a successor has just removed what was listed
            continue


def _counted(folder: Path) -> Counted:
    epoch, path = max(manifests(folder).items())
    manifest = Manifest.read(path, epoch)
    found = {path.name: path.read_bytes()}
    for file in folder.glob("*.log"):
        name = SegmentName.parse(file.name)
        assert name is not None
        data = file.read_bytes()
        if name in manifest.ends:
            sizes = [header.size_bytes for _, header in iter_headers(data) if header.next_offset <= manifest.ends[name]]
            found[file.name] = data[: sum(sizes)]
        elif name.epoch == epoch:
            found[file.name] = data
    return found


def unchanged(before: Counted, after: Counted) -> bool:
    """Whether everything that counted is unchanged; there may be additions after it, and a later epoch's manifest."""
    kept = {name: data for name, data in before.items() if name.endswith(".log") or name in after}
    return all(after.get(name, b"").startswith(data) for name, data in kept.items())
