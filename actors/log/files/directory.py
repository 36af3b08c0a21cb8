"""The directory of one partition: its topic (partition.metadata) and the leader epoch that may write (the claim).

``partition.metadata`` is Kafka's file of that name: version and topic id.
"""

from __future__ import annotations

import base64
import errno
import os
import re
import shutil
from pathlib import Path
from uuid import UUID

from muster.actors.log.errors import FencedEpoch, NotLeader, StorageError
from muster.actors.log.files.disk import sync_directory, write_atomically

_METADATA = "partition.metadata"
_CLAIM = re.compile(r"leader-epoch-(\d{10})")
_NAME_MAX_BYTES = 255


def name_of(topic: str, partition: int) -> str:
    """Return the directory's name, as in Kafka."""
    return f"{topic}-{partition}"


def prepare(directory: Path, topic_id: UUID, epoch: int) -> None:
    """Prepare the directory for the topic. A directory of another topic with the same name is set aside."""
    owner = topic_of(directory)
    if owner is not None and owner != topic_id:
        set_aside(directory, owner)
        owner = None
    if owner is None:
        directory.mkdir(parents=True, exist_ok=True)
        sync_directory(directory.parent)
        write_atomically(directory / _METADATA, _metadata(topic_id), f"{epoch}")


def topic_of(directory: Path) -> UUID | None:
    """Return the topic id in partition.metadata; None without such a file. Raises StorageError if it is malformed."""
    try:
        text = (directory / _METADATA).read_text(encoding="utf-8")
        fields = dict(line.split(": ", 1) for line in text.splitlines() if line)
        return UUID(bytes=base64.urlsafe_b64decode(fields["topic_id"] + "=="))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError) as error:
        raise StorageError(f"{directory / _METADATA} is not readable: {error!r}") from error


def _metadata(topic_id: UUID) -> bytes:
    return b"version: 0\ntopic_id: " + base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=") + b"\n"


def claims(directory: Path) -> list[int]:
    """Return the leader epochs with a claim in the directory, ascending. Raises OSError."""
    return sorted(int(match[1]) for entry in directory.iterdir() if (match := _CLAIM.fullmatch(entry.name)))


def set_aside(directory: Path, topic_id: UUID) -> Path:
    """Rename to ``<name>.<topic id>-delete``, Kafka's form for pending deletion. Returns the new path."""
    suffix = f".{topic_id}-delete"
    aside = directory.with_name(directory.name[: _NAME_MAX_BYTES - len(suffix)] + suffix)
    directory.rename(aside)
    sync_directory(directory.parent)
    return aside


def remove(directory: Path, topic_id: UUID) -> None:
    """Remove the directory if it belongs to that topic. It is renamed immediately, and deleted on return.

    Raises OSError.
    """
    if topic_of(directory) == topic_id:
        shutil.rmtree(set_aside(directory, topic_id))


class Claim:
    """The right of one leader epoch to acknowledge appends in a directory.

    A claim is an empty file named after its epoch. Taking one removes all lower ones; only the highest counts.
    Claims therefore only increase, whatever the order in which two processes run, and a writer has lost its claim
    exactly if its own file is gone. This requires a file system on which a removed name is seen as removed by the
    next open anywhere (local ones; NFS mounted with ``lookupcache=none``).
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def take(cls, directory: Path, epoch: int) -> Claim:
        """Take the epoch, durably. Raises FencedEpoch if this or a higher one was here before; OSError."""
        claim = cls(directory / f"leader-epoch-{epoch:010d}")
        try:
            os.close(os.open(claim._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            raise FencedEpoch(f"{directory.name}: leader epoch {epoch} has been used") from None
        seen = {int(match[1]): entry for entry in directory.iterdir() if (match := _CLAIM.fullmatch(entry.name))}
        if max(seen) > epoch:
            claim._path.unlink(missing_ok=True)
            raise FencedEpoch(f"{directory.name}: leader epoch {epoch} comes after {max(seen)}")
        for lower in seen.keys() - {epoch}:
            seen[lower].unlink(missing_ok=True)
        sync_directory(directory)
        return claim

    def check(self) -> None:
        """Raise NotLeader if a newer epoch has taken the directory, or it was removed.

        Raises OSError if that is unknown.
        """
        try:
            os.close(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ESTALE, errno.ENOTDIR):
                raise NotLeader(f"{self._path.parent.name}: {self._path.name} lost its claim") from error
            raise
