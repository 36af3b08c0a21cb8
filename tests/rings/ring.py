"""The table of rings, and the command line of each."""

from __future__ import annotations

import shlex
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("rings.toml")
FIRST = "first"
DISTRIBUTION = ("--dist", "loadgroup", "--no-loadscope-reorder")
"""By the groups that tests/conftest.py makes, in the order of collection."""
PYTEST = (sys.executable, "-m", "pytest", "--max-worker-restart", "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """A row of ``rings.toml``, which explains the columns."""

    name: str
    covers: str
    paths: tuple[str, ...]
    command: str
    shares: bool = False
    needs: str = ""

    @property
    def is_by_name(self) -> bool:
        """Whether it runs only where it is named."""
        return bool(self.needs)

    def arguments(self, seed: int) -> list[str]:
        """Return the command line; ``seed`` replaces ``{seed}``, for checks that are different each time."""
        program, *others = shlex.split(self.command.format(seed=seed))
        if program != "pytest":
            return [program, *others]
        if "-n" in others and "--dist" not in others:
            others = [*DISTRIBUTION, *others]
        return [*PYTEST, "-m", marked(self.name), *others]


def marked(name: str) -> str:
    """Return the argument of ``pytest -m`` for the tests of a ring."""
    own = f"ring(name={name!r})"
    return f"not ring or {own}" if name == FIRST else own


def load(table: Path = TABLE) -> dict[str, Ring]:
    """Every ring, by name, in the order of the table. Raises TypeError for an unknown column."""
    rows = tomllib.loads(table.read_text())
    everywhere = rows.pop("everywhere", [])
    return {name: Ring(name=name, **{**row, "paths": (*row["paths"], *everywhere)}) for name, row in rows.items()}
