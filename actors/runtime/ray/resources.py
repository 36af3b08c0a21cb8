"""Resources of the nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping

from muster.actors.runtime.ray.public_api import public_api_only


def free_by_node() -> list[Mapping[str, float]]:
    """Return the free resources of each node: CPU, memory in bytes, and any other that Ray counts.

    With Ray's public API only, all resources of each node: it says what is free of the whole cluster alone.
    """
    if public_api_only():
        import ray

        return [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    from ray._private.state import available_resources_per_node

    per_node: Mapping[str, Mapping[str, float]] = available_resources_per_node()  # type: ignore[no-untyped-call]
    return list(per_node.values())
