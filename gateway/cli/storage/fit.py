"""Whether a storage directory is fit for Muster, on this node; and how that is reported."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from muster.actors.runtime.storage.mounts import KNOWN_TO_BE_FIT, mount_of
from muster.actors.runtime.storage.promises import Finding
from muster.actors.runtime.storage.trials import check
from muster.gateway.cli.errors import CliError

_MAX_REPORTED = 3


def check_here(storage: Path) -> None:
    """Try on this node, in some milliseconds, what Muster needs. CliError naming what is missing. OSError."""
    refuse_unfit(storage, check(storage))


def refuse_unfit(storage: Path, findings: Iterable[Finding]) -> None:
    """CliError naming the problems, if there are any."""
    problems = [f"{finding.promise.title}{_on(finding)}: {finding.problem}" for finding in findings if finding.problem]
    if not problems:
        return
    reported = list(dict.fromkeys(problems))
    others = f" (and {len(reported) - _MAX_REPORTED} more)" if len(reported) > _MAX_REPORTED else ""
    mount = mount_of(storage)
    raise CliError(
        f"storage path {storage}{f' ({mount})' if mount else ''} is not fit for Muster: "
        f"{'; '.join(reported[:_MAX_REPORTED])}{others}. Known to be fit: {KNOWN_TO_BE_FIT}. "
        f"muster storage check {storage} shows what was tried"
    )


def _on(finding: Finding) -> str:
    return f" on node {finding.host}" if finding.host else ""
