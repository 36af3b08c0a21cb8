"""``muster storage check``: whether a directory or a bucket is fit for Muster, on this node or on all of a Ray."""

from __future__ import annotations

from pathlib import Path

import click

from muster.actors.object_storage.location import NotALocation, is_uri
from muster.actors.runtime.narrow import Column, Kind
from muster.actors.runtime.storage.mounts import KNOWN_TO_BE_FIT, concerns, mount_of
from muster.actors.runtime.storage.promises import Finding
from muster.actors.runtime.storage.trials import check
from muster.actors.runtime.words import counted
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import NAME
from muster.gateway.cli.output import print_json, print_table, print_text, with_wide
from muster.gateway.cli.suggestions import Commands

_COLUMNS = (
    "PROMISE",
    Column("NODE", Kind.NAME, optional=True),
    Column("RESULT", Kind.TEXT),
    "MS",
    Column("NEEDED SO THAT", Kind.TEXT, optional=True),
)


@click.group(cls=Commands, epilog="Example: muster storage check /srv/muster --address auto")
def storage() -> None:
    """Check a storage directory, or a bucket."""


@storage.command("check", epilog="Example: muster storage check /srv/muster")
@click.argument("place", metavar="[DIR|URI]", type=NAME, default="muster-data")
@click.option(
    "--address",
    type=NAME,
    metavar="RAY_ADDRESS",
    help="Address of a running Ray, or auto: try it on all its nodes, and between them.",
)
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check_(place: str, address: str | None, as_json: bool) -> None:
    """Try the file system of DIR, an existing directory, as Muster uses it. Default ./muster-data.

    Everything is tried in temporary folders, which are removed. muster up tries most of it by itself; this also
    measures, and kills a process that holds a lock. The exit code is 1 if a promise is not kept. One promise cannot be
    tried: that data survive a power failure after fsync.

    URI, such as s3://bucket/prefix: try what object storage must promise to hold the data of a cluster, and measure.
    Muster cannot store its data there yet. Endpoint, region and credentials come from the environment (for S3:
    AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or from the host.
    """
    if is_uri(place):
        if address is not None:
            raise CliError("--address is for a directory: every node reaches the same bucket; leave it out")
        findings = _in_bucket(place)
        if as_json:
            print_json({"location": place, "findings": _rows(findings)})
        else:
            _print(findings)
        _refuse_broken(findings, place, "two writers of one log could both acknowledge there: use another service")
        return
    directory = Path(place)
    if not directory.is_dir():
        raise CliError(f"there is no directory {directory}; create it, or mount it, first")
    directory = directory.absolute()
    try:
        findings = check(directory, thorough=True)
        if address is not None:
            findings += _on_every_node(directory, address)
    except OSError as error:
        raise CliError(f"{directory} cannot be written: {error.strerror}") from error
    mount = mount_of(directory)
    notes = concerns(mount, shared=address is not None) if mount else []
    if as_json:
        print_json({"directory": str(directory), "mount": str(mount), "notes": notes, "findings": _rows(findings)})
    else:
        _print(findings)
        for note in notes:
            print_text(f"note: {mount}: {note}")
    _refuse_broken(findings, str(mount or directory), f"known to be fit: {KNOWN_TO_BE_FIT}")


def _print(findings: list[Finding]) -> None:
    kept = sum(finding.problem is None for finding in findings)
    total = f"{counted(len(findings), 'promise')}, {kept} of them kept"
    if print_table(_COLUMNS, [tuple(row.values()) for row in _rows(findings)], total):
        for finding in findings:
            if finding.problem is not None:
                print_text(f"BROKEN: {finding.promise.title}: {finding.problem}")


def _refuse_broken(findings: list[Finding], place: str, hint: str) -> None:
    """Raise CliError if a promise is not kept."""
    if broken := sum(finding.problem is not None for finding in findings):
        raise CliError(f"{counted(broken, 'promise')} not kept by {place}; {hint}")


def _in_bucket(uri: str) -> list[Finding]:
    """Raise CliError if the URI is none, or the bucket cannot be written and read."""
    from muster.gateway.cli.storage.bucket import findings_of

    try:
        return findings_of(uri, thorough=True)
    except NotALocation as error:
        raise CliError(str(error)) from error


def _rows(findings: list[Finding]) -> list[dict[str, object]]:
    return [
        {
            "promise": finding.promise.title,
            "node": finding.host,
            "result": f"BROKEN: {finding.problem}" if finding.problem else finding.detail or "kept",
            "ms": round(finding.took_ms),
            "needed_so_that": finding.promise.value,
        }
        for finding in findings
    ]


def _on_every_node(directory: Path, address: str) -> list[Finding]:
    """Check on every node. Raises CliError if no Ray responds there, or a node has no such directory."""
    from muster.gateway.cli.ray.given_ray import GivenRay

    ray = GivenRay(address)
    try:
        from muster.actors.runtime.storage.across import check_nodes
        from muster.gateway.cli.storage.shared import Nodes

        nodes = Nodes()
        return check_nodes(directory, nodes.hosts, nodes)
    finally:
        ray.close()
