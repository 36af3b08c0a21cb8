"""Loads the schemas of the APIs before a client needs them.

kio has a module for each version of each API. The first request of a version would have to wait for its import, and
with it all other requests of the process: up to 12 ms.
"""

from __future__ import annotations

import asyncio
import gc
import logging

import muster.gateway.apis  # noqa: F401 - registers the APIs
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.steps import Steps
from muster.gateway.listener.api import APIS

log = logging.getLogger(__name__)

_PAUSE_S = 0.2

_loaded: set[tuple[int, int]] = set()


def load_schemas() -> Steps[None]:
    """Load the schemas that have not been loaded, those of one version in each step.

    They are exempt from garbage collection, with all that exists: to look at them all would take 70 ms.
    """
    for key, api in APIS.items():
        for version in api.versions:
            if (key, version) not in _loaded:
                codec.load(key, version)
                _loaded.add((key, version))
                gc.collect()
                gc.freeze()
                yield


async def load_schemas_by_and_by() -> None:
    """Load them over a minute or so, between the requests of clients: 2.5 s of processor time, when all else starts."""
    await asyncio.sleep(_PAUSE_S)
    try:
        for _ in load_schemas():
            await asyncio.sleep(_PAUSE_S)
    except Exception:
        log.exception("schemas could not be loaded; each is when a client needs it")
