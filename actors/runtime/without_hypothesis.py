"""Keeps hypothesis out of every process that imports kio.

kio registers a strategy for each of its types wherever hypothesis can be imported. That costs a server 0.2 s at its
start and leaves a folder ``.hypothesis`` behind, and kio has no setting against it. So kio makes its mind up here,
before anything else imports it.
"""

from __future__ import annotations

import sys

HYPOTHESIS = "hypothesis"


def import_kio() -> None:
    """Import the module of kio that asks for hypothesis, and let it find none, unless this process has it already."""
    if HYPOTHESIS in sys.modules:
        return
    sys.modules[HYPOTHESIS] = None  # type: ignore[assignment]  # makes its import raise, as the import system documents
    try:
        import kio.static.primitive  # noqa: F401
    finally:
        del sys.modules[HYPOTHESIS]
