"""Which gateways Metadata names as replicas of a partition, so that consumers find one in their rack (KIP-392).

Every gateway serves every partition, so this only distributes the consumers of other racks than the leader's. Each rack
has a replica, if the replication factor allows, and the leaders of a rack have theirs on different gateways of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class HasRack(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def rack(self) -> str | None: ...


def replicas(leader: HasRack, brokers: Sequence[HasRack]) -> list[int]:
    """The ids of all brokers, in the order of preference: the leader, one of each other rack, then the next by id.

    ``brokers``: by id, the leader among them.
    """
    ids = [broker.id for broker in brokers]
    first = ids.index(leader.id)
    following = [*ids[first:], *ids[:first]]
    members: dict[str, list[int]] = {}
    for broker in brokers:
        if broker.rack is not None:
            members.setdefault(broker.rack, []).append(broker.id)
    peers = members.pop(leader.rack, ids) if leader.rack is not None else ids
    place = peers.index(leader.id)
    begin = next((rack for rack in sorted(members) if rack > (leader.rack or "")), "")
    racks = sorted(members, key=lambda rack: (rack < begin, rack))
    chosen = [leader.id, *(members[rack][place % len(members[rack])] for rack in racks)]
    return [*chosen, *(broker_id for broker_id in following if broker_id not in chosen)]
