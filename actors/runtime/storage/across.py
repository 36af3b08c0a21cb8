"""Tries what a file system must promise across nodes (:class:`FilePromise`).

:func:`check_nodes` is for one node, the rest for each.

First every node looks at the names, as its caches will remember them. Then this node changes them, and every node looks
again: at once, since that is how a writer notices that it was replaced, and how a log finds its records elsewhere.
"""

from __future__ import annotations

import fcntl
import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

from muster.actors.log.errors import FencedEpoch, NotLeader
from muster.actors.log.files.directory import Claim
from muster.actors.runtime.storage.promises import Broken, FilePromise, Finding, doing, tried
from muster.actors.runtime.storage.trials import check, trial_folder

_BOUND_S = 1.0
"""Time for which a change that is not seen at once is looked for, to report how late it is."""
_POLL_S = 0.02
_LATER, _REPLACED, _ONCE, _LOCK, _CLAIMS = "later", "replaced", "once", "lock", "claims"
_OLD, _NEW = "before", "after"

T = TypeVar("T")


class OnEveryNode(Protocol):
    """Calls ``function(*arguments, node)`` on every node at once. Returns the results by node."""

    def __call__(self, function: Callable[..., T], /, *arguments: object) -> dict[str, T]: ...


@dataclass(frozen=True, slots=True)
class Seen:
    """Findings of a node before anything was changed."""

    findings: tuple[Finding, ...]
    created: bool
    """Whether it was the one that created the name that every node tried to create."""


def check_nodes(directory: Path, hosts: Mapping[str, str], on_every_node: OnEveryNode) -> list[Finding]:
    """Return the findings of every node, given as id and host. Tries on each what a single node can, too.

    Ids are parts of file names. Raises OSError if no folder can be created in the directory.
    """
    with trial_folder(directory) as folder:
        begin(folder, [*hosts])
        first = on_every_node(look, directory, folder)
        with changed(folder, [*hosts]):
            second = on_every_node(look_again, folder, [*hosts])
    found = [replace(finding, host=hosts[node]) for node in hosts for finding in (*first[node].findings, *second[node])]
    if (winners := sum(seen.created for seen in first.values())) != 1:
        problem = f"of {len(hosts)} nodes that created one name at once (O_EXCL), {winners} succeeded"
        found.append(Finding(promise=FilePromise.CREATE, problem=problem))
    return found


def begin(folder: Path, nodes: Sequence[str]) -> None:
    """Create what the nodes will look at."""
    (folder / _REPLACED).write_text(_OLD)
    (folder / _LOCK).touch()
    for node in nodes:
        (folder / _CLAIMS / node).mkdir(parents=True)


def look(directory: Path, folder: Path, node: str) -> Seen:
    """On a node: try what it can alone, and look at the names that will change."""
    if not folder.is_dir():
        return Seen(
            (Finding(promise=FilePromise.VISIBLE, problem=f"{directory} is not there, or another directory"),), False
        )
    looked = tried(FilePromise.VISIBLE, functools.partial(_look, folder, node))
    return Seen((*check(directory), *([looked] if looked.problem else [])), _create(folder / _ONCE))


def _look(folder: Path, node: str) -> str | None:
    _await(folder / _REPLACED, _OLD)
    if _content(folder / _LATER) is not None:
        raise Broken("a name existed before it was created")
    _own(folder, node).write_text(node)
    with doing("claiming a leader epoch"):
        Claim.take(folder / _CLAIMS / node, 1).check()
    return None


def _create(path: Path) -> bool:
    """Whether this call created it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError:
        return False
    return True


@contextmanager
def changed(folder: Path, nodes: Sequence[str]) -> Iterator[None]:
    """Change everything, as the next owner of a log on this node would; hold the lock in the body."""
    (folder / _LATER).write_text(_NEW)
    temporary = folder / f"{_REPLACED}.tmp"
    temporary.write_text(_NEW)
    temporary.replace(folder / _REPLACED)
    for node in nodes:
        Claim.take(folder / _CLAIMS / node, 2)
    with (folder / _LOCK).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def look_again(folder: Path, nodes: Sequence[str], node: str) -> list[Finding]:
    """On a node: whether the changes of other nodes are seen, and its lock is respected."""
    trials = ((FilePromise.CLAIM, _claim), (FilePromise.VISIBLE, _visible), (FilePromise.LOCK, _lock))
    return [tried(promise, functools.partial(trial, folder, nodes, node)) for promise, trial in trials]


def _claim(folder: Path, nodes: Sequence[str], node: str) -> str | None:
    claims = folder / _CLAIMS / node
    try:
        Claim(claims / "leader-epoch-0000000001").check()
    except NotLeader:
        pass
    else:
        raise Broken("a name that another node has removed could still be opened")
    try:
        Claim.take(claims, 1)
    except FencedEpoch:
        return None
    raise Broken("a directory did not list the name that another node has created in it")


def _visible(folder: Path, nodes: Sequence[str], node: str) -> str | None:
    _await(folder / _LATER, _NEW)
    _await(folder / _REPLACED, _NEW)
    for other in nodes:
        _await(_own(folder, other), other)
    return None


def _lock(folder: Path, nodes: Sequence[str], node: str) -> str | None:
    with (folder / _LOCK).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
    raise Broken("a lock that another node holds was granted a second time (flock)")


def _own(folder: Path, node: str) -> Path:
    return folder / f"from-{node}"


def _await(path: Path, content: str) -> None:
    """Raise Broken unless the first open finds that content."""
    started = time.monotonic()
    looks = 1
    while (found := _content(path)) != content:
        if time.monotonic() - started > _BOUND_S:
            what = "is not seen" if found is None else "is seen with its old content"
            raise Broken(f"a file that another node has written and closed {what} after {_BOUND_S:g} s")
        looks += 1
        time.sleep(_POLL_S)
    if looks > 1:
        late_s = time.monotonic() - started
        raise Broken(f"a file that another node has written and closed was seen only after {late_s:.2f} s")


def _content(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
