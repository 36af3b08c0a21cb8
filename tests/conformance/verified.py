"""Which transcripts a real Apache Kafka has been seen to answer as they say: a hash of each in ``verified.csv``.

A hash covers the transcript, the versions of Kafka and of the codec, and the modules that play it. On Kafka,
``make ring-conformance`` plays transcripts without their present hash. ``python -m tests.conformance.scenarios check``
plays all, and writes the hashes.
"""

from __future__ import annotations

import csv
import functools
import hashlib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path, PurePosixPath

from tests.imports import imported
from tests.scenarios.suites import recorded

_FILE = Path(__file__).with_name("verified.csv")
_ROOT = Path(__file__).parents[2]
_PLAYER = PurePosixPath("tests/conformance/scenarios.py")
_OTHERS = ("actors/wire/kafka/codec.py", "tests/conformance/pom.xml")
"""Other files that play transcripts. ``pom.xml`` has Kafka's version."""


def unverified(file: Path = _FILE) -> list[Path]:
    """Return recorded transcripts that Kafka has not been seen to answer as they are now, in order."""
    known = _read(file)
    return [path for path in recorded() if known.get(path.stem) != _hash_of(path)]


def verify(transcripts: Iterable[Path], file: Path = _FILE) -> None:
    """Write the hashes of these transcripts, and drop those of transcripts that no longer exist."""
    known = _read(file) | {path.stem: _hash_of(path) for path in transcripts}
    with file.open("w", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerows((name, known[name]) for path in recorded() if (name := path.stem) in known)


def _read(file: Path) -> dict[str, str]:
    if not file.exists():
        return {}
    with file.open(newline="") as lines:
        return dict(csv.reader(lines))


def _hash_of(transcript: Path) -> str:
    return hashlib.sha256(_harness() + transcript.read_bytes()).hexdigest()[:16]


@functools.cache
def _harness() -> bytes:
    files = sorted(_ROOT / path for path in (*imported(_PLAYER), *map(PurePosixPath, _OTHERS)))
    return hashlib.sha256(b"".join((version("kio").encode(), *(file.read_bytes() for file in files)))).digest()
