"""One-to-one matching of connections and groups: which pairs are possible if every connection has a different group."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def pairs(options: Sequence[set[str]]) -> list[str] | None:
    """One group for each, all different, deterministic for the same options; None if there is no such choice."""
    owner: dict[str, int] = {}

    def place(number: int, tried: set[str]) -> bool:
        for group in sorted(options[number] - tried, key=lambda group: (group in owner, group)):
            tried.add(group)
            if group not in owner or place(owner[group], tried):
                owner[group] = number
                return True
        return False

    if not all(place(number, set()) for number in range(len(options))):
        return None
    chosen = {number: group for group, number in owner.items()}
    return [chosen[number] for number in range(len(options))]


def viable(options: Mapping[K, set[str]]) -> dict[K, set[str]] | None:
    """Return each one's options that leave the others a choice of different groups; None if there is no choice.

    Given one choice, another group is possible if its owner can move to another group, and so on, until a group is
    free or is the one given up (J.-C. Régin, AAAI 1994).
    """
    if all(len(groups) >= len(options) for groups in options.values()):
        return dict(options)  # any choice of one leaves the others enough
    chosen = pairs(list(options.values()))
    if chosen is None:
        return None
    bits = {group: 1 << number for number, group in enumerate(sorted(set().union(*options.values())))}
    reach = {
        mine: bits[mine] | sum(bits[group] for group in groups)
        for mine, groups in zip(chosen, options.values(), strict=True)
    }
    """By taken group: the groups that its owner can have, then those that their owners can have, and so on."""
    for by_way_of, bit in bits.items():
        if further := reach.get(by_way_of):
            for group, found in reach.items():
                if found & bit:
                    reach[group] = found | further
    free = sum(bit for group, bit in bits.items() if group not in reach)
    return {
        each: {group for group in groups if group not in reach or reach[group] & (free | bits[mine])}
        for (each, groups), mine in zip(options.items(), chosen, strict=True)
    }
