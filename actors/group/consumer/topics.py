"""The topics of the cluster, as far as consumer groups depend on them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

import xxhash

_INT32 = struct.Struct("<i")
_INT64 = struct.Struct("<Q")


class TopicInfo(NamedTuple):
    topic_id: UUID
    partitions: int


class Topics:
    """The topics that exist, by name; immutable."""

    def __init__(self, by_name: Mapping[str, TopicInfo] | None = None, version: int = 0) -> None:
        """``version`` increases with every change of the topics."""
        self.by_name: Mapping[str, TopicInfo] = dict(by_name or {})
        self.version = version
        self._names = {topic.topic_id: name for name, topic in self.by_name.items()}
        self._hashes: dict[str, int] = {}

    def name_of(self, topic_id: UUID) -> str | None:
        """None if there is no such topic any more."""
        return self._names.get(topic_id)

    def ids_of(self, names: Iterable[str]) -> frozenset[UUID]:
        """Ids of those of the topics that exist."""
        return frozenset(self.by_name[name].topic_id for name in names if name in self.by_name)

    def partitions_of(self, topic_id: UUID) -> int:
        """0 if there is no such topic."""
        name = self._names.get(topic_id)
        return 0 if name is None else self.by_name[name].partitions

    def hash_of(self, names: Iterable[str]) -> int:
        """Hash these topics to a signed 64-bit number; 0 if none of them exists.

        Equal to Kafka's Utils.computeGroupHash (KIP-1101) in a cluster without racks: its replicas have none.
        """
        existing = sorted(name for name in names if name in self.by_name)
        if not existing:
            return 0
        digest = xxhash.xxh3_64_intdigest(b"".join(_INT64.pack(self._hash(name)) for name in existing))
        return digest - (1 << 64) if digest >> 63 else digest

    def _hash(self, name: str) -> int:
        known = self._hashes.get(name)
        if known is None:
            known = self._hashes[name] = _topic_hash(name, self.by_name[name])
        return known


def _topic_hash(name: str, topic: TopicInfo) -> int:
    """Hash like Kafka's Utils.computeTopicHash: strings are UTF-16 units and their number; little-endian numbers."""
    most, least = topic.topic_id.int >> 64, topic.topic_id.int & (1 << 64) - 1
    text = name.encode("utf-16-le")
    parts = [b"\0", _INT64.pack(most), _INT64.pack(least), text, _INT32.pack(len(text) // 2)]
    parts += [_INT32.pack(number) for number in (topic.partitions, *range(topic.partitions))]
    return xxhash.xxh3_64_intdigest(b"".join(parts))
