"""The switch that leaves Ray as it is."""

from __future__ import annotations

import os

PUBLIC_API_ONLY = "MUSTER_RAY_PUBLIC_API_ONLY"
"""Variable in the environment of every process of Muster; its workers get it from the one that connects to Ray."""


def public_api_only() -> bool:
    """Whether Muster uses Ray's public API only, and changes nothing in Ray: docs/ray-internals.md."""
    return os.environ.get(PUBLIC_API_ONLY, "") not in ("", "0")
