"""List of hosts that Ray's autoscaler keeps."""

from __future__ import annotations

from typing import Any

from muster.actors.runtime.ray.public_api import public_api_only


def enlist_hosts(cluster: dict[str, Any]) -> None:
    """Enter the hosts of a cluster configuration in the list, if the provider is ``local``, which has one.

    With Ray's public API only, hosts that are added later are not known to the autoscaler.
    """
    if cluster["provider"]["type"] != "local" or public_api_only():
        return
    from ray.autoscaler._private.local.node_provider import LocalNodeProvider

    LocalNodeProvider(cluster["provider"], cluster["cluster_name"])  # type: ignore[no-untyped-call]  # writes the list
