"""Schemas are loaded before a client needs them."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc, sys
from muster.actors.wire.kafka import codec
from muster.gateway.listener.api import APIS
from muster.gateway.apis.schemas import load_schemas

def loaded():
    return {name for name in sys.modules if name.startswith("kio.schema.")}

before = loaded()
steps = sum(1 for _ in load_schemas())
after, exempt = loaded(), gc.get_freeze_count()
for key, api in APIS.items():
    for version in api.versions:
        codec.request_type(key, version), codec.response_type(key, version)
assert steps == sum(len(api.versions) for api in APIS.values()), steps
assert len(after) - len(before) > steps, (before, after)
assert loaded() == after, loaded() - after
assert exempt > 10 * steps, exempt
assert not list(load_schemas()), "again"
"""


def test_all_versions_of_all_apis_are_loaded_once() -> None:
    """In a process in which no test has loaded any."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
