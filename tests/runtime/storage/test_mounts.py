"""Statements of mount options, since not everything shows when it is tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.actors.runtime.storage.mounts import Mount, concerns, mount_of

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 22 0:26 / /tmp rw - tmpfs tmpfs rw
41 22 0:40 / /srv rw,relatime shared:2 - nfs4 nas:/export rw,vers=4.1,hard,lookupcache=none,local_lock=none
42 22 0:41 / /srv/a\\040b rw - nfs nas:/other rw,vers=3,soft,nolock,local_lock=all
"""
EFS = "rw,relatime,vers=4.1,rsize=1048576,hard,noresvport,timeo=600,local_lock=none"


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    (tmp_path / "mountinfo").write_text(MOUNTS)
    return tmp_path / "mountinfo"


@pytest.mark.parametrize(
    ("path", "point", "kind"),
    [
        ("/srv/muster", "/srv", "nfs4"),
        ("/srv", "/srv", "nfs4"),
        ("/srvx", "/", "ext4"),
        ("/srv/a b/muster", "/srv/a b", "nfs"),
    ],
)
def test_the_mount_that_holds_a_path(mounts: Path, path: str, point: str, kind: str) -> None:
    found = mount_of(Path(path), mounts)
    assert found is not None
    assert (found.point, found.type) == (point, kind)


def test_the_mount_of_a_real_path(tmp_path: Path) -> None:
    assert mount_of(tmp_path) is not None
    assert mount_of(tmp_path, tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("nfs4", f"{EFS},lookupcache=none", []),
        ("nfs4", EFS, ["without lookupcache=none"]),
        ("nfs4", f"{EFS},lookupcache=pos", ["without lookupcache=none"]),
        ("nfs4", "soft,lookupcache=none", ["mounted soft"]),
        ("nfs", "vers=3,hard,nolock,lookupcache=none", ["locks are local", "before version 4"]),
        ("nfs4", "vers=4.1,hard,lookupcache=none,local_lock=flock", ["locks are local"]),
        ("ceph", "rw", []),
        ("lustre", "rw,flock,lazystatfs", []),
        ("lustre", "rw,lazystatfs", ["without flock"]),
        ("lustre", "rw,localflock", ["without flock"]),
        ("fuse.s3fs", "rw", ["object storage"]),
        ("cifs", "rw,vers=3.1.1", ["cannot replace a file that is open"]),
        ("tmpfs", "rw", ["in memory"]),
        ("ext4", "rw", ["local to a machine"]),
    ],
)
def test_what_speaks_against_it(kind: str, options: str, said: list[str]) -> None:
    found = concerns(Mount("/srv", kind, frozenset(options.split(","))), shared=True)
    assert len(found) == len(said), found
    assert all(words in concern for words, concern in zip(said, found, strict=True))


def test_one_node_needs_less() -> None:
    for kind, options in (("nfs4", EFS), ("ext4", "rw"), ("lustre", "rw")):
        assert concerns(Mount("/srv", kind, frozenset(options.split(","))), shared=False) == []
