"""Which transcripts a real Apache Kafka has been seen to answer as they say: a hash of each in ``verified.csv``.

A hash covers the transcript, the version of Kafka, and the modules that play it. ``make ring-conformance`` plays a
transcript without its present hash on Kafka; ``python -m tests.conformance.scenarios check`` does, too, and writes the
hash.
"""

from __future__ import annotations

import csv
import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

from tests.scenarios.suites import recorded

_FILE = Path(__file__).with_name("verified.csv")
_TESTS = Path(__file__).parents[1]
_HARNESS = (
    *("conformance/kafka.py", "conformance/pom.xml", "conformance/scenarios.py", "group/driver.py"),
    *(f"scenarios/{name}.py" for name in ("core_world", "language", "play", "pulse", "rendering", "requests")),
    *(f"scenarios/{name}.py" for name in ("socket_world", "suites", "values")),
)
"""``pom.xml`` has Kafka's version."""


def unverified(file: Path = _FILE) -> list[Path]:
    """Recorded transcripts that Kafka has not been seen to answer as they are now, in order."""
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
    return hashlib.sha256(b"".join((_TESTS / name).read_bytes() for name in _HARNESS)).digest()
