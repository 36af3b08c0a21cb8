"""Trials across two nodes find what one does not see of the other; a process with a weak file system is one of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from muster.actors.runtime.storage.across import check_nodes
from muster.actors.runtime.storage.promises import FilePromise, Finding
from tests.runtime.storage.conftest import Weak
from tests.runtime.storage.node import Nodes

T = TypeVar("T")
HOSTS = {"a": "10.0.0.10", "b": "10.0.0.11"}


def problems(found: list[Finding]) -> set[tuple[FilePromise, str | None, str]]:
    return {(finding.promise, finding.host, finding.problem) for finding in found if finding.problem}


def on_nodes(weak: Weak, directory: Path, how: str, *, both: bool = False) -> list[Finding]:
    """Node b has a weak file system, and a a sound one unless it is both."""
    with Nodes({"a": weak(how if both else ""), "b": weak(how)}) as nodes:
        return check_nodes(directory, HOSTS, nodes)


def test_nodes_that_share_a_file_system(weak: Weak, tmp_path: Path) -> None:
    found = on_nodes(weak, tmp_path, "")
    assert problems(found) == set()
    for host in HOSTS.values():
        assert {finding.promise for finding in found if finding.host == host} == {*FilePromise}
    assert [*tmp_path.iterdir()] == []


@pytest.mark.ring(name="operations")
def test_a_node_that_remembers_names(weak: Weak, tmp_path: Path) -> None:
    """NFS without lookupcache=none may do so."""
    assert problems(on_nodes(weak, tmp_path, "stale")) >= {
        (FilePromise.CLAIM, "10.0.0.11", "a name that another node has removed could still be opened"),
        (FilePromise.VISIBLE, "10.0.0.11", "a file that another node has written and closed is not seen after 1 s"),
    }


@pytest.mark.ring(name="operations")
@pytest.mark.parametrize(
    ("how", "promise", "problem"),
    [
        ("granted-flock", FilePromise.LOCK, "a lock that another node holds was granted a second time (flock)"),
        ("no-directory-fsync", FilePromise.SYNC, "fsync of a directory failed: Invalid argument"),
    ],
)
def test_a_node_with_another_mount(weak: Weak, tmp_path: Path, how: str, promise: FilePromise, problem: str) -> None:
    found = problems(on_nodes(weak, tmp_path, how))
    assert (promise, "10.0.0.11", problem) in found
    assert {host for _, host, _ in found} == {"10.0.0.11"}


@pytest.mark.ring(name="operations")
def test_a_name_that_two_nodes_created(weak: Weak, tmp_path: Path) -> None:
    problem = "of 2 nodes that created one name at once (O_EXCL), 2 succeeded"
    assert (FilePromise.CREATE, None, problem) in problems(on_nodes(weak, tmp_path, "no-exclusive", both=True))


def test_a_node_without_the_directory(weak: Weak, tmp_path: Path) -> None:
    class Elsewhere(Nodes):
        def __call__(self, function: Callable[..., T], /, *arguments: object) -> dict[str, T]:
            others = super().__call__(function, *arguments)
            moved = [Path("/nowhere") if isinstance(each, Path) else each for each in arguments]
            return {"a": others["a"], "b": function(*moved, "b")}

    with Elsewhere({"a": weak("")}) as nodes:
        found = problems(check_nodes(tmp_path, HOSTS, nodes))
    assert (FilePromise.VISIBLE, "10.0.0.11", "/nowhere is not there, or another directory") in found
