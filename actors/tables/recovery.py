"""Turns sample spools of dead processes into Parquet files, each sample once."""

from __future__ import annotations

import logging
from pathlib import Path

from muster.actors.tables import journal
from muster.actors.tables.folder import SpoolFolder
from muster.actors.tables.parquet import write_samples

_log = logging.getLogger(__name__)


def recover_samples(folder: SpoolFolder, table: Path, gateway: int) -> int:
    """Write the samples of a dead gateway process into the table. Returns the rows. Idempotent."""
    _resolve_pending(folder)
    rows = 0
    for path in folder.spools():
        spool = journal.read(path)
        if spool.lost:
            folder.say_lost(path, spool.lost, min((row.head.ts_ms for row in spool.rollup.rows()), default=None))
        rows += write_samples(table, folder.name_of(path), gateway, spool.rollup)
    if rows:
        _log.info("recovered %d rows of samples from %s", rows, folder.path)
    return rows


def _resolve_pending(folder: SpoolFolder) -> None:
    """Count samples that were pending when the process died with the reason they had: atomically adds one spool."""
    paths = folder.spools()
    left = journal.unresolved(journal.read(path) for path in paths)
    if not left:
        return
    target = folder.path / f"{int(paths[-1].stem) + 1:08d}.jsonl"
    partial = target.with_suffix(".partial")
    partial.write_bytes(b"".join(journal.resolution_line(handle, sample) for handle, sample in left.items()))
    partial.replace(target)
