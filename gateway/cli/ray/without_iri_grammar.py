"""Keeps rfc3987-syntax out of the processes of Muster that import Ray.

Ray imports jsonschema, which imports the checks of each format, if they are installed. An environment with Jupyter has
rfc3987-syntax, for IRIs, whose import builds a grammar: with it, an import of Ray takes 3.5 s of processor time instead
of 0.7 s. No schema of Ray has an IRI.
"""

from __future__ import annotations

import sys

from muster.actors.runtime.ray.public_api import public_api_only

GRAMMAR = "rfc3987_syntax"


def without_iri_grammar() -> None:
    """Hide it from jsonschema, unless this process has imported it already. For programs of Muster's own."""
    if not public_api_only():
        sys.modules.setdefault(GRAMMAR, None)  # type: ignore[arg-type]  # makes its import raise
