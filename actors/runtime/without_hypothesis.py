"""Keeps hypothesis out of every process that imports kio.

kio registers a strategy for each of its types wherever hypothesis can be imported. That costs a server 0.2 s at
start-up and leaves a folder ``.hypothesis`` behind, and kio has no setting to prevent it. So kio is made to look for
hypothesis here, before anything else imports kio.
"""

from __future__ import annotations

import sys

HYPOTHESIS = "hypothesis"


def import_kio() -> None:
    """Import the kio module that looks for hypothesis, and hide it, unless this process has imported it already."""
    if HYPOTHESIS in sys.modules:
        return
    sys.modules[HYPOTHESIS] = None  # type: ignore[assignment]  # makes its import raise, as the import system documents
    try:
        import kio.static.primitive  # noqa: F401
    finally:
        del sys.modules[HYPOTHESIS]
