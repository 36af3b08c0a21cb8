"""Frames that were found to do harm, each with what it did: JSON with hexadecimal bytes, or a file of sized frames."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from muster.actors.wire.kafka.framing import Framer
from tests.fuzz.attack import Attack
from tests.fuzz.frames import Frame
from tests.fuzz.values import Values

FOLDER = Path(__file__).with_name("corpus")


class Case(NamedTuple):
    """A found case."""

    name: str
    found: str
    """Effect of the frames before it was mended."""
    frames: list[bytes]
    """Without their sizes, in order, over one connection."""


def cases() -> list[Case]:
    """All that are committed."""
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        content = json.loads(path.read_text())
        frames = [b"".join(map(_part, parts)) for parts in content["frames"]]
        found.append(Case(path.stem, content["found"], frames))
    return found


def _part(part: str | dict[str, Any]) -> bytes:
    """Hexadecimal digits, or some that are repeated: {"repeat": DIGITS, "times": N}."""
    return bytes.fromhex(part) if isinstance(part, str) else bytes.fromhex(part["repeat"]) * int(part["times"])


def write(path: Path, sized: list[bytes]) -> None:
    """Frames with their sizes, one behind the other."""
    path.write_bytes(b"".join(sized))


def read(path: Path) -> list[bytes]:
    """Return the frames of such a file, without their sizes."""
    return Framer(1 << 30).feed(path.read_bytes())


async def send(host: str, port: int, frames: list[bytes]) -> None:
    """Have each looked at, and a valid request behind them. Raises Unanswered."""
    attack = Attack(host, port, iter(()), Values([]))
    wrapped = [Frame(int.from_bytes(each[:2], "big"), int.from_bytes(each[2:4], "big"), each, 1.0) for each in frames]
    line = await attack.send(wrapped)
    line.abort()
