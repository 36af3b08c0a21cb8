"""The file system that holds a path, and what its type and mount options say about the promises that can be kept.

Not everything shows in a trial: a lock that is local to the node, or a name that is remembered for some seconds.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

KNOWN_TO_BE_FIT = (
    "local disks; NFSv4 mounted hard with lookupcache=none, such as EFS; CephFS; Lustre mounted with flock"
)
_MOUNTS = Path("/proc/self/mountinfo")


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of /proc/self/mountinfo (proc(5))."""

    point: str
    type: str
    options: frozenset[str]
    """Options of the mount and of the file system, such as ``hard`` or ``vers=4.1``."""

    def __str__(self) -> str:
        return f"{self.type} at {self.point}"


def mount_of(path: Path, mounts: Path = _MOUNTS) -> Mount | None:
    """Return the mount that holds the path; None if that is unknown."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    whole = os.path.realpath(path)
    holding = [mount for mount in map(_parsed, lines) if _holds(mount.point, whole)]
    return max(reversed(holding), key=lambda mount: len(mount.point), default=None)


def _holds(point: str, path: str) -> bool:
    return point == "/" or path == point or path.startswith(f"{point}/")


def _parsed(line: str) -> Mount:
    first, _, second = line.partition(" - ")
    fields, (kind, _, rest) = first.split(" "), second.split(" ", 2)
    point = re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), fields[4])
    return Mount(point, kind, frozenset(f"{fields[5]},{rest}".split(",")))


def concerns(mount: Mount, *, shared: bool) -> list[str]:
    """Return the concerns about this file system. ``shared``: whether several nodes will use the directory."""
    said = {option.partition("=")[0]: option.partition("=")[2] for option in mount.options}
    found = []
    if mount.type in ("tmpfs", "ramfs"):
        found.append("it is in memory: a restart of the machine loses everything")
    if re.search(r"s3fs|s3$|gcsfuse|goofys|rclone|blobfuse", mount.type):
        found.append("object storage as a file system has no atomic rename and no locks")
    if mount.type in ("cifs", "smb3", "9p", "vboxsf"):
        found.append(f"{mount.type} cannot replace a file that is open, and locks differ from flock")
    if mount.type in ("nfs", "nfs4"):
        if shared and said.get("lookupcache") != "none":
            found.append("mounted without lookupcache=none: a replaced writer may notice too late")
        if "soft" in said or "softerr" in said:
            found.append("mounted soft: a slow server loses writes; mount it hard")
        if shared and ("nolock" in said or said.get("local_lock", "none") in ("all", "flock")):
            found.append("locks are local to each node: mount it without nolock and local_lock")
        if mount.type == "nfs" and said.get("vers", "3").startswith(("2", "3")):
            found.append("NFS before version 4 needs lockd on all nodes and the server for locks")
    if mount.type == "lustre" and shared and "flock" not in said:
        found.append("mounted without flock: locks are local or missing")
    if shared and mount.type in ("ext4", "ext3", "xfs", "btrfs", "zfs", "overlay"):
        found.append(f"{mount.type} is local to a machine: right only if all nodes are on this one")
    return found
