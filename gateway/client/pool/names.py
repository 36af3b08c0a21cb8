"""Names of a pool's actors, and of its members. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

NAMESPACE = "muster-pool"
"""Ray's namespace of all actors of pools, so that every driver finds them."""
_SUPERVISOR, _WORKER = "muster-pool", "muster-pool-worker"


def supervisor_name(pool: str) -> str:
    """Return the name of the actor that supervises the pool."""
    return f"{_SUPERVISOR}:{pool}"


def worker_name(token: str, slot: int) -> str:
    """Return the name of the actor in the slot. Ray lets no other one have it before that one is dead."""
    return f"{_WORKER}:{token}:{slot}"


def client_id(group: str, token: str, slot: int) -> str:
    """Return the ``client.id`` of the member in the slot.

    ``token``, of one start of a pool, keeps apart pools of the same group, also on other Rays.
    """
    return f"{client_prefix(group, token)}{slot}"


def client_prefix(group: str, token: str) -> str:
    """Return what the ``client.id`` of each member of the pool begins with."""
    return f"muster-pool-{group}-{token}-"


def worker_slots(token: str, names: Iterable[Mapping[str, str]]) -> list[int]:
    """Return the slots of the pool's workers among Ray's named actors, in order."""
    prefix = worker_name(token, 0).removesuffix("0")
    found = (each["name"].removeprefix(prefix) for each in names if _is_ours(each, prefix))
    return sorted(int(slot) for slot in found if slot.isdecimal())


def _is_ours(actor: Mapping[str, str], prefix: str) -> bool:
    return actor["namespace"] == NAMESPACE and actor["name"].startswith(prefix)
