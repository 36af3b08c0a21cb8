"""``muster log verify``: checks the files of logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from muster.actors.log.files import inspection
from muster.actors.log.files.inspection import Report
from muster.actors.runtime.narrow import Column, Kind
from muster.actors.runtime.words import counted
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import STORAGE_DIRECTORY
from muster.gateway.cli.output import print_json, print_table, print_text, with_wide
from muster.gateway.cli.storage import directory as storage

_PARTITION = re.compile(r"(.+)-(\d+)")
_COLUMNS = (
    Column("PARTITION", Kind.NAME),
    Column("SEGMENTS", optional=True),
    Column("BATCHES", optional=True),
    "RECORDS",
    "LOG START",
    "LOG END",
    "STATE",
)


@click.command(epilog="Example: muster log verify flights __consumer_offsets-7")
@click.argument("what", nargs=-1, metavar="[PATH|TOPIC|TOPIC-PARTITION]...")
@click.option(
    "--storage",
    "directory",
    metavar="DIR",
    type=STORAGE_DIRECTORY,
    default=Path("muster-data"),
    help="Storage directory. Default ./muster-data.",
)
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(what: tuple[str, ...], directory: Path, as_json: bool) -> None:
    """Read all logs, or the named ones, and check them: CRCs, order, offsets, manifests, indexes, claims.

    Nothing is changed. The exit code is 1 if anything is damaged. Traces of a crash that the next start repairs, such
    as a torn tail, are reported as notes. While Muster runs, the ends of logs may look torn.
    """
    if storage.holder(directory):
        print_text(f"muster runs on {directory}: ends of logs that are being written to may look torn", err=True)
    reports = [inspection.verify(path) for path in _partitions(directory, what)]
    if as_json:
        print_json([_as_json(report) for report in reports])
    else:
        records = counted(sum(report.records for report in reports), "record")
        print_table(_COLUMNS, [_row(report) for report in reports], f"{counted(len(reports), 'log')}, {records}")
        for report in reports:
            for finding in report.findings:
                print_text(f"{'DAMAGE' if finding.is_damage else 'note'}: {finding.path}: {finding.what}")
    damaged = [report for report in reports if not report.is_sound]
    if damaged:
        raise CliError(f"{counted(len(damaged), 'log')} of {len(reports)} damaged")


def _partitions(directory: Path, what: tuple[str, ...]) -> list[Path]:
    """Return directories of partitions; all if none is named. Raises CliError for one that does not exist."""
    logs = directory / "logs"
    if not what:
        if not logs.is_dir():
            raise CliError(f"no logs in {directory}; specify the directory with --storage")
        return sorted(_of_topics(logs), key=_by_topic)
    return [path for name in what for path in _named(logs, name)]


def _of_topics(logs: Path) -> Iterator[Path]:
    return (entry for entry in logs.iterdir() if entry.is_dir() and _PARTITION.fullmatch(entry.name))


def _by_topic(path: Path) -> tuple[str, int]:
    match = _PARTITION.fullmatch(path.name)
    return (match[1], int(match[2])) if match else (path.name, 0)


def _named(logs: Path, name: str) -> list[Path]:
    if (logs / name).is_dir():
        return [logs / name]
    if Path(name).is_dir():
        return [Path(name)]
    found = [entry for entry in _of_topics(logs) if _by_topic(entry)[0] == name] if logs.is_dir() else []
    if not found:
        raise CliError(f"{name} is neither a topic or partition below {logs} nor a directory")
    return sorted(found, key=_by_topic)


def _row(report: Report) -> tuple[Any, ...]:
    return (
        report.directory.name,
        report.segments,
        report.batches,
        report.records,
        report.log_start_offset,
        report.log_end_offset,
        "sound" if report.is_sound else "DAMAGED",
    )


def _as_json(report: Report) -> dict[str, Any]:
    return {
        "partition": report.directory.name,
        "path": str(report.directory),
        "segments": report.segments,
        "batches": report.batches,
        "records": report.records,
        "log_start_offset": report.log_start_offset,
        "log_end_offset": report.log_end_offset,
        "sound": report.is_sound,
        "findings": [
            {"path": str(finding.path), "what": finding.what, "damage": finding.is_damage}
            for finding in report.findings
        ],
    }
