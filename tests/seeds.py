"""Seeds of random histories: a few for every change; many, and fresh ones, in the ring ``seeds``.

Fresh ones begin with ``MUSTER_SEED``, by default a number from the commit. Their test id names it, which repeats a
failure: ``MUSTER_SEED=17 .venv/bin/python -m pytest "tests/...[MUSTER_SEED=17]"``.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

_ROOT = Path(__file__).parents[1]


def seeds(few: int, many: int, fresh: int) -> list[ParameterSet]:
    """Parameters of a test: the ring ``seeds`` has those from ``few`` to ``many``, and ``fresh`` new ones."""
    first = first_fresh_seed()
    return [
        *(pytest.param(seed, id=str(seed)) for seed in range(few)),
        *(pytest.param(seed, id=str(seed), marks=pytest.mark.ring(name="seeds")) for seed in range(few, many)),
        *(
            pytest.param(seed, id=f"MUSTER_SEED={seed}", marks=pytest.mark.ring(name="seeds"))
            for seed in range(first, first + fresh)
        ),
    ]


@cache
def first_fresh_seed() -> int:
    """``MUSTER_SEED``; without it a number from the id of the commit, 0 outside a clone. Raises ValueError."""
    if given := os.environ.get("MUSTER_SEED"):
        return int(given)
    if not (_ROOT / ".git").exists():
        return 0
    head = subprocess.run(["git", "-C", _ROOT, "rev-parse", "HEAD"], capture_output=True, text=True)
    return int(head.stdout[:8] or "0", 16)
