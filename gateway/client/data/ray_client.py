"""Ray Client, over which Ray Data does not run."""

from __future__ import annotations

import sys

from muster.gateway.client.errors import RayClientUnsupported


def refuse_ray_client() -> None:
    """Raise RayClientUnsupported if this program is connected by Ray Client.

    Ray Data would fail in its executor, with ``'Worker' object has no attribute 'core_worker'`` (Ray 2.60).
    """
    client = sys.modules.get("ray.util.client")
    if client is not None and client.ray.is_connected():
        raise RayClientUnsupported(
            "Ray Data does not run over Ray Client (ray://): submit the program as a job, "
            "ray job submit -- python PROGRAM, or run it on a node of the cluster"
        )
