"""Which node an actor starts on, and which actors move when a node joins or is drained: as few as possible.

Most actors are placed by rendezvous hashing. Log actors are few, and each has much work: hashing would often put two of
them on one of three nodes. They are spread instead, each on a node with the fewest of them.

An actor moves only off a node that is drained, or to a node that may lack its share: one that joined, or any node when
a controller starts, since its predecessor may have died while it gave a node its share. (Actors of a lost node do not
move: they are created anew.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from muster.placement.rendezvous import choose


@dataclass(frozen=True, slots=True)
class Move:
    actor: str
    source: str
    """Node id, like ``target``."""
    target: str


_DEALT = "log-"


def home(actor: str, nodes: Collection[str], homes: Mapping[str, str]) -> str:
    """Return the node for an actor created now. ``homes``: where others are, or will be.

    Raises ValueError without nodes.
    """
    if not actor.startswith(_DEALT):
        return choose(actor, sorted(nodes))
    load = _dealt({name: node for name, node in homes.items() if name != actor})
    least = min((load[node] for node in nodes), default=0)
    return choose(actor, sorted(node for node in nodes if load[node] == least))


def _dealt(homes: Mapping[str, str]) -> Counter[str]:
    return Counter(node for name, node in homes.items() if name.startswith(_DEALT))


def moves(
    homes: Mapping[str, str], nodes: Collection[str], incomplete: Collection[str], drained: Collection[str]
) -> Iterator[Move]:
    """All moves that are due, those off drained nodes first, in the order of ``homes``.

    ``homes``: the node of each actor. ``nodes``: nodes that may get actors; ``incomplete`` are those of them that may
    lack their share. No move is due without ``nodes`` that are not ``drained``.
    """
    targets = sorted(set(nodes) - set(drained))
    if not targets:
        return
    for actor, place in homes.items():
        if place in drained:
            yield Move(actor, place, home(actor, targets, homes))
    load = _dealt(homes)
    most = max(load.values(), default=0)
    for actor, place in homes.items():
        best = home(actor, targets, homes)
        is_better = load[place] == most > load[best] + 1 if actor.startswith(_DEALT) else best != place
        if place not in drained and best in incomplete and is_better:
            yield Move(actor, place, best)


class Roster:
    """The nodes as they join and leave. A new node counts only after it has stayed for a while, even if it flaps."""

    def __init__(self, settle_ms: int) -> None:
        self._settle_ms = settle_ms
        self._since_ms: dict[str, int] = {}
        self._complete: set[str] = set()

    @property
    def nodes(self) -> frozenset[str]:
        """Every node that is alive, settled or not."""
        return frozenset(self._since_ms)

    def begin(self, alive: Collection[str], now_ms: int) -> None:
        """Start watching. Nodes that are alive now count as settled; whether they have their share is not known."""
        self._since_ms = dict.fromkeys(alive, now_ms - self._settle_ms)

    def see(self, alive: Collection[str], now_ms: int) -> None:
        """Record which nodes are alive now. A node that was missing for a moment starts over."""
        self._since_ms = {node: self._since_ms.get(node, now_ms) for node in alive}
        self._complete &= set(alive)

    def settled(self, now_ms: int) -> frozenset[str]:
        """Nodes that have been alive long enough to get actors."""
        return frozenset(node for node, since in self._since_ms.items() if now_ms - since >= self._settle_ms)

    def incomplete(self, now_ms: int) -> frozenset[str]:
        """Settled nodes that may lack a part of their share."""
        return self.settled(now_ms) - self._complete

    def have_their_share(self, nodes: Collection[str]) -> None:
        """Count these nodes as complete from now on."""
        self._complete |= set(nodes) & self._since_ms.keys()

    def forget_share(self, node: str) -> None:
        """Allow the node to lack its share again."""
        self._complete.discard(node)
