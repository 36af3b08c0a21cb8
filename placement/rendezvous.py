"""Rendezvous hashing (Thaler and Ravishankar, 1996): a key moves only if its node is added or removed."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b


def rank(key: str, nodes: Sequence[str]) -> list[str]:
    """All nodes, best first for that key. The order of ``nodes`` does not matter."""
    return sorted(nodes, key=lambda node: (_score(key, node), node), reverse=True)


def choose(key: str, nodes: Sequence[str]) -> str:
    """Return the best node for the key. Raises ValueError without nodes."""
    return max(nodes, key=lambda node: (_score(key, node), node))


def _score(key: str, node: str) -> bytes:
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8, key=node.encode()[:64]).digest()
