"""Groups: a partition has one owner in a generation."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.history import History, Place


def one_owner(history: History) -> Iterator[str]:
    """No two members were assigned the same partition in the same generation, or at the same member epoch."""
    owners: dict[tuple[str, int, Place], str] = {}
    for assigned in history.assigned:
        if assigned.generation < 0 or not assigned.member or assigned.group in history.shared_groups:
            continue
        for place in assigned.places:
            owner = owners.setdefault((assigned.group, assigned.generation, place), assigned.member)
            if owner != assigned.member:
                yield (
                    f"{assigned.group} generation {assigned.generation}: {place[0]}-{place[1]} belongs to {owner}"
                    f" and to {assigned.member} ({assigned.worker}, {assigned.at_s:.2f} s)"
                )


def one_owner_in_descriptions(history: History) -> Iterator[str]:
    """Require one owner of each partition in DescribeGroups, too."""
    for group, members in history.described:
        owners: dict[Place, str] = {}
        for member, places in members.items():
            for place in places:
                if owners.setdefault(place, member) != member:
                    yield f"{group}: {place[0]}-{place[1]} belongs to {owners[place]} and to {member}"
