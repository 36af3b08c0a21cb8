"""A Muster on a Ray that runs: started by a detached actor on the head, which outlives the program.

See :mod:`muster.gateway.client.up_actor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.gateway.client.cluster import Cluster
from muster.gateway.client.on_ray import call, chosen_ray, stop


@dataclass(frozen=True, slots=True)
class _Launched:
    """Stops what :func:`start` returned."""

    ray_address: str
    is_owner = True

    def stop(self, timeout_s: float) -> None:
        """Stop it in order. No effect if it has ended."""
        stop(self.ray_address, timeout_s, is_required=False)


def start(
    storage: Path | str,
    *,
    address: str | None = None,
    gateways: int | None = None,
    properties: Mapping[str, str] = {},
    insecure: bool = False,
    start_timeout_s: float = 300,
) -> Cluster:
    """Start Muster on a Ray that runs: ``address``, else the one that this process is connected to, else RAY_ADDRESS.

    ``muster up --address`` runs on the head, whose Python must have Muster. It outlives this driver, until
    Cluster.stop() or ``muster down``, and it is started anew if its process on the head is killed. ``storage`` is a
    directory that all nodes share. ``gateways``: their number; None: one on every node. ``properties`` are those of
    docs/configuration.md. Ray Client's addresses (``ray://``) work if Muster's are reachable from here.

    If one on this storage runs already, that is returned. Raises AlreadyRunning if it is on another storage;
    NotStarted, with the end of the output, also where ``muster up`` refuses (no login and not ``insecure``; nodes that
    do not see the storage); NotRunning if no Ray is known, NoResponse if there is none at the address.
    """
    request = {
        "storage": str(Path(storage).absolute()),
        "gateways": gateways,
        "properties": {name: str(value) for name, value in properties.items()},
        "insecure": insecure,
        "timeout_s": start_timeout_s,
    }
    at = chosen_ray(address)
    ready = call(at, "start", request)
    ray_address = at if "://" in at else ready["ray_address"]
    starter = _Launched(ray_address) if ready["is_ours"] else None
    return Cluster(ready["bootstrap"], tuple(ready["http"]), ray_address=ray_address, starter=starter)
