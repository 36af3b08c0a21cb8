"""Modules that the processes of a running Muster have loaded."""

from __future__ import annotations

import psutil

from tests.muster_process import Muster


def test_no_actor_has_loaded_pandas(muster: Muster) -> None:
    actors = [actor for actor in muster.actors().values() if actor["state"] == "alive"]
    loaded = {
        actor["name"]: {library for library in ("pyarrow", "pandas") if any(f"/{library}/" in path for path in paths)}
        for actor in actors
        for paths in [[each.path for each in psutil.Process(actor["pid"]).memory_maps()]]
    }
    assert loaded == {actor["name"]: {"pyarrow"} for actor in actors}
