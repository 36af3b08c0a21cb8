"""``muster log``: shows the files of a storage directory, read directly."""

from __future__ import annotations

import click

from muster.gateway.cli.lazy import Command, LazyCommands

_COMMANDS = {
    "dump": Command(
        "storage.log_dump:dump",
        "Show the batches and records of a partition or of one segment file, including segments that were set aside.",
    ),
    "replay": Command(
        "storage.log_replay:replay",
        "Feed a partition of __consumer_offsets to the group coordinator, and show the groups that it has then.",
    ),
    "verify": Command(
        "storage.log_verify:verify",
        "Read all logs, or the named ones, and check them: CRCs, order, offsets, manifests, indexes, claims.",
    ),
}


@click.group(cls=LazyCommands, lazy=_COMMANDS, epilog="Example: muster log verify --storage ./muster-data")
def log() -> None:
    """Check and show stored data: record batches, offsets, groups."""
