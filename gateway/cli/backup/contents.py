"""Contents of a backup, and checks that it is whole.

======================  =======================================================================================
``manifest.json``       what the backup has: size and SHA-256 of each file. Written last
``zookeeper.jsonl``     a node of ZooKeeper on each line: its path, and its data in base64
``storage/``            ``logs/`` and ``metrics/`` as they were under storage.path
======================  =======================================================================================

Files have mode 600 and directories 700: ``/config/users`` has hashes of passwords.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from muster.actors.runtime.files import write_atomically
from muster.gateway.cli.errors import CliError

FORMAT_VERSION = 1
MANIFEST, NODES, STORAGE = "manifest.json", "zookeeper.jsonl", "storage"
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of the backup, below its directory."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Contents of a backup. Times are RFC 3339, UTC."""

    cluster_id: str
    muster_version: str
    began: str
    """Time up to which everything acknowledged is in the backup."""
    cut: str
    """Time from which nothing acknowledged is in the backup."""
    was_running: bool
    partitions: int
    nodes: int
    files: tuple[StoredFile, ...]
    version: int = FORMAT_VERSION
    left_out: tuple[str, ...] = field(default=())
    """Parts left out on request."""

    @property
    def size_bytes(self) -> int:
        """Size of all files."""
        return sum(file.size_bytes for file in self.files)

    def summary(self) -> dict[str, Any]:
        """Return everything but the files, for people and programs."""
        known = asdict(self)
        del known["files"]
        return {**known, "files": len(self.files), "bytes": self.size_bytes}

    def write(self, directory: Path) -> None:
        """Make the directory a backup. Raises OSError."""
        write_atomically(directory / MANIFEST, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, directory: Path) -> Manifest:
        """Read the manifest. Raises CliError if there is none, or none that this version can read."""
        path = directory / MANIFEST
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            if (version := int(fields["version"])) > FORMAT_VERSION:
                raise CliError(f"{directory} has backup format {version}, this Muster reads up to {FORMAT_VERSION}")
            files = tuple(StoredFile(**file) for file in fields.pop("files"))
            return cls(**{**fields, "files": files, "left_out": tuple(fields["left_out"])})
        except (FileNotFoundError, NotADirectoryError):
            raise CliError(
                f"{directory} is no backup: it has no {MANIFEST}, which is written last; if muster backup was ended "
                "before its end, remove it"
            ) from None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise CliError(f"{path} cannot be read: {error}") from error


def problems(directory: Path, manifest: Manifest) -> Iterator[str]:
    """Yield the problems of the backup's files, each in a line. Reads all of them."""
    expected = {file.path for file in manifest.files} | {MANIFEST}
    for file in manifest.files:
        try:
            with (directory / file.path).open("rb") as stored:
                found = copied(stored, None)
        except OSError as error:
            yield f"{file.path}: {error.strerror}"
            continue
        if found != (file.size_bytes, file.sha256):
            yield f"{file.path}: its content has changed"
    for path in sorted(directory.rglob("*")):
        if not path.is_dir() and str(path.relative_to(directory)) not in expected:
            yield f"{path.relative_to(directory)}: not a file of the backup"


def copied(source: BinaryIO, target: BinaryIO | None, size_bytes: int | None = None) -> tuple[int, str]:
    """Copy up to ``size_bytes``, to nowhere if there is no target. Returns bytes and SHA-256. OSError."""
    digest, done = hashlib.sha256(), 0
    while size_bytes is None or done < size_bytes:
        chunk = source.read(_CHUNK_BYTES if size_bytes is None else min(_CHUNK_BYTES, size_bytes - done))
        if not chunk:
            break
        digest.update(chunk)
        done += len(chunk)
        if target is not None:
            target.write(chunk)
    return done, digest.hexdigest()


def create(path: Path) -> BinaryIO:
    """Create a new file with mode 600. Raises OSError."""
    return os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb")


def durable(file: BinaryIO) -> None:
    """Sync the writes to the file. Raises OSError."""
    file.flush()
    os.fsync(file.fileno())


def sync_directories(root: Path) -> None:
    """Sync the directory and all below it. Raises OSError."""
    for folder, _, _ in os.walk(root):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
