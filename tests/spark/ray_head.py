"""A Ray cluster for a test: ``python -m tests.spark.ray_head STORAGE``, until its stdin ends.

Prints its address to stdout; then, for every line that it reads, the actors that are not dead and the free CPUs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from muster.actors.runtime.java import java_environment
from muster.gateway.cli.ray.own_ray import OwnRay


def main() -> None:
    storage = Path(sys.argv[1])
    (storage / "run").mkdir(parents=True, exist_ok=True)
    own = OwnRay(storage, java_environment())
    own.start()
    try:
        print(
            json.dumps({"address": own.address, "token_path": str(own.token_path), "temp_dir": str(own.temp_dir)}),
            flush=True,
        )
        for _ in sys.stdin:
            print(json.dumps(_state()), flush=True)
    finally:
        own.stop()


def _state() -> dict[str, object]:
    import ray
    from ray._private.state import actors

    alive = [actor["Name"] or actor["ActorClassName"] for actor in actors().values() if actor["State"] != "DEAD"]
    return {"actors": sorted(alive), "cpus": ray.available_resources().get("CPU", 0)}


if __name__ == "__main__":
    main()
