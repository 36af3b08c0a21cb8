"""Preparation of a storage directory for a start: checks that it is fit for Muster on this node, and their report."""

from __future__ import annotations

import contextlib
import errno
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from muster.actors.runtime.storage.mounts import KNOWN_TO_BE_FIT, mount_of
from muster.actors.runtime.storage.promises import Finding
from muster.actors.runtime.storage.reserve import Reserve
from muster.actors.runtime.storage.trials import check
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.storage import directory

_MAX_REPORTED = 3


def prepare(storage: Path) -> None:
    """Create the directory if necessary. Raises CliError if it is not writable or not fit."""
    try:
        str(storage).encode()
    except UnicodeEncodeError:
        raise CliError(f"storage path {storage} is not UTF-8, which Ray needs; choose another with --storage") from None
    if directory.unfinished_restore(storage).exists():
        raise CliError(
            f"storage path {storage} is incomplete: a muster restore into it has not ended; remove the directory and "
            "restore again"
        )
    with _writable(storage):
        (storage / "run").mkdir(parents=True, exist_ok=True)
        _close_to_others(storage)
        room = Reserve(storage).release_if_needed()
        if room.free_bytes < room.reserve_bytes // 2:
            raise CliError(
                f"storage path {storage} is full: {room.free_bytes >> 10} KiB are free, and a start needs "
                f"{room.reserve_bytes >> 11} KiB; free space there, or choose another with --storage"
            )
        with tempfile.TemporaryFile(dir=storage):
            pass
        refuse_unfit(storage, check(storage))


def cluster_id_in(storage: Path) -> str:
    """Return its cluster id, generated in a new directory. Lock it first: two starts would generate two ids.

    Raises CliError if it is too new or cannot be written.
    """
    with _writable(storage):
        return directory.cluster_id(storage)


@contextlib.contextmanager
def _writable(storage: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = "free space there" if error.errno == errno.ENOSPC else "make it writable for this user"
        raise CliError(
            f"storage path {storage} cannot be written: {error.strerror}; {hint} or choose another with --storage"
        ) from error


def _close_to_others(storage: Path) -> None:
    """Remove other users' access to what someone else made: a mount point, a copy. What is below stays as it is."""
    for name in ("logs", "metrics", "run", "zookeeper"):
        with contextlib.suppress(FileNotFoundError):
            (storage / name).chmod(0o700)


def refuse_unfit(storage: Path, findings: Iterable[Finding]) -> None:
    """Raise CliError naming the problems, if there are any."""
    problems = _problems(findings)
    if not problems:
        return
    mount = mount_of(storage)
    raise CliError(
        f"storage path {storage}{f' ({mount})' if mount else ''} is not fit for Muster: "
        f"{problems}. Known to be fit: {KNOWN_TO_BE_FIT}. "
        f"muster storage check {storage} shows what was tried"
    )


def refuse_broken(uri: str, findings: Iterable[Finding]) -> None:
    """Raise CliError naming the promises that a bucket does not keep, if there are any."""
    if problems := _problems(findings):
        raise CliError(f"{uri} is not fit for Muster: {problems}. muster storage check {uri} shows what was tried")


def _problems(findings: Iterable[Finding]) -> str:
    problems = [f"{finding.promise.title}{_on(finding)}: {finding.problem}" for finding in findings if finding.problem]
    reported = list(dict.fromkeys(problems))
    others = f" (and {len(reported) - _MAX_REPORTED} more)" if len(reported) > _MAX_REPORTED else ""
    return f"{'; '.join(reported[:_MAX_REPORTED])}{others}"


def _on(finding: Finding) -> str:
    return f" on node {finding.host}" if finding.host else ""
