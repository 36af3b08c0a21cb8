"""Which node an actor is made on, and which actors change theirs when a node comes or is drained: as few as can be.

Most go by rendezvous hashing. There are few log actors, and each has much to do: hashing would often put two on one of
three nodes, so these are dealt out, each on a node with the fewest of them.

An actor moves only off a node that is drained, or to a node that came: never between two nodes that were there before.
(Those of a node that is lost do not move: they are made anew.)
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
    """Node id, as ``target``."""
    target: str


_DEALT = "log-"


def home(actor: str, nodes: Collection[str], homes: Mapping[str, str]) -> str:
    """The node for an actor that is made now. ``homes``: where others are, or will be. ValueError without nodes."""
    if not actor.startswith(_DEALT):
        return choose(actor, sorted(nodes))
    load = _dealt({name: node for name, node in homes.items() if name != actor})
    least = min((load[node] for node in nodes), default=0)
    return choose(actor, sorted(node for node in nodes if load[node] == least))


def _dealt(homes: Mapping[str, str]) -> Counter[str]:
    return Counter(node for name, node in homes.items() if name.startswith(_DEALT))


def moves(
    homes: Mapping[str, str], nodes: Collection[str], newcomers: Collection[str], drained: Collection[str]
) -> Iterator[Move]:
    """Every move that is due, those off drained nodes first, in the order of ``homes``.

    ``homes``: the node of each actor. ``nodes``: those that may be given actors. The others of ``nodes`` are old to
    ``newcomers``, which are among them; ``drained`` is not. None is due without ``nodes``.
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
        if place not in drained and best in newcomers and is_better:
            yield Move(actor, place, best)


class Roster:
    """The nodes as they come and go. A new one counts only after it was there for a while, however often it flaps."""

    def __init__(self, settle_ms: int) -> None:
        self._settle_ms = settle_ms
        self._since_ms: dict[str, int] = {}
        self._old: set[str] = set()

    @property
    def nodes(self) -> frozenset[str]:
        """Every node that is alive, settled or not."""
        return frozenset(self._since_ms)

    def begin(self, alive: Collection[str], old: Collection[str], now_ms: int) -> None:
        """What is there when the watching begins has settled; those not in ``old`` are newcomers."""
        self._since_ms = dict.fromkeys(alive, now_ms - self._settle_ms)
        self._old = set(old) & set(alive)

    def see(self, alive: Collection[str], now_ms: int) -> None:
        """Take in which nodes are alive now; one that was away for a moment begins anew."""
        self._since_ms = {node: self._since_ms.get(node, now_ms) for node in alive}
        self._old &= set(alive)

    def settled(self, now_ms: int) -> frozenset[str]:
        """Nodes that have been there for long enough to be given something."""
        return frozenset(node for node, since in self._since_ms.items() if now_ms - since >= self._settle_ms)

    def newcomers(self, now_ms: int) -> frozenset[str]:
        """Settled nodes that have not got their share yet."""
        return self.settled(now_ms) - self._old

    def have_their_share(self, nodes: Collection[str]) -> None:
        """They are newcomers no more."""
        self._old |= set(nodes) & self._since_ms.keys()

    def forget_share(self, node: str) -> None:
        """The node is a newcomer again."""
        self._old.discard(node)
