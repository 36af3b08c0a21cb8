"""``muster doctor``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster.actors.runtime.narrow import Column, Kind
from muster.actors.runtime.words import counted
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import NAME
from muster.gateway.cli.options import with_properties
from muster.gateway.cli.output import print_json, print_table, print_text, with_wide

if TYPE_CHECKING:
    from muster.gateway.cli.doctor.findings import Finding

_COLUMNS = (Column("CHECK", Kind.NAME), "RESULT", Column("FOUND", Kind.TEXT), Column("MEND", Kind.TEXT, optional=True))


@click.command("doctor", epilog="Example: muster doctor --config muster.properties --storage ./muster-data")
@with_properties()
@click.option("--gateways", type=NAME, metavar="N", help="Number of gateways, as for muster up.")
@click.option("--port", type=NAME, metavar="P", help="Port of the first gateway, as for muster up.")
@click.option("--storage", "directory", metavar="DIR", help="Storage directory. Default ./muster-data.")
@click.option("--zookeeper", "hosts", type=NAME, metavar="HOSTS", help="HOST:PORT[,...] of a running ZooKeeper.")
@click.option("--address", type=NAME, metavar="RAY_ADDRESS", help="Address of a running Ray, as for muster up.")
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(
    file: Path | None,
    sets: tuple[str, ...],
    gateways: str | None,
    port: str | None,
    directory: str | None,
    hosts: str | None,
    address: str | None,
    as_json: bool,
) -> None:
    """Check this machine, the configuration and a running Muster, and say how to mend each problem.

    Takes the options of muster up, before a start or beside a Muster that runs on that storage. Nothing is changed. The
    exit code is 1 if a check failed; warnings do not count.
    """
    from muster.gateway.cli.doctor.checks import checked  # takes as long as all that it checks

    flags = {"gateway.count": gateways, "port": port, "storage.path": directory, "zookeeper.connect": hosts}
    found = list(checked(file, sets, flags, address))
    if as_json:
        print_json([asdict(finding) for finding in found])
    else:
        _print(found)
    if broken := sum(finding.level == "failed" for finding in found):
        raise CliError(f"{counted(broken, 'check')} failed")


def _print(found: list[Finding]) -> None:
    """Print the table; if it has no room for what to do, that is below it, in full."""
    wrong = [each for each in found if each.level != "ok"]
    total = f"{counted(len(found), 'check')}, {len(found) - len(wrong)} of them ok"
    if print_table(_COLUMNS, [(each.check, each.level, each.found, each.mend) for each in found], total):
        for each in wrong:
            print_text(f"{each.level}: {each.check}: {each.found}; {each.mend}")
