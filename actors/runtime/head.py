"""The head of the Ray that this process is connected to."""

from __future__ import annotations

import ray

_HEAD = "node:__internal_head__"
"""A Ray resource that only the head has."""


def head_node_id() -> str | None:
    """Return the head's node id; None while it is unknown. Without the head there is no Ray."""
    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    return next((node["NodeID"] for node in nodes if node["Alive"] and _HEAD in node["Resources"]), None)
