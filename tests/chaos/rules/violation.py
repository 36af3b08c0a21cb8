"""Violation of a rule."""

from __future__ import annotations

from typing import NamedTuple

MOST = 20
"""Violations of one rule that are listed; the others are counted."""


class Violation(NamedTuple):
    rule: str
    text: str
