"""What a rule finds."""

from __future__ import annotations

from typing import NamedTuple

MOST = 20
"""Violations of one rule that are told; the rest is counted."""


class Violation(NamedTuple):
    rule: str
    text: str
