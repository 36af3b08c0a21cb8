"""The index of claims follows every change of its candidates as if it were built anew."""

from __future__ import annotations

import random

import pytest

from muster.gateway.attribution.claims import Claim, Index, Place, Reader
from muster.gateway.attribution.slot import Observation, Slot, Tenure

GRACE_MS = 300
PLACES: list[Place] = [("t", number) for number in range(3)]
MEMBERS = [(f"g{number % 3}", f"m{number}") for number in range(6)]
PRINCIPALS = (None, "User:a", "User:b")


def results(slot: Slot, now_ms: int) -> list[object]:
    """Return the slot's answers about many times and readers, in an order of their own."""
    found: list[object] = [slot.count, slot.candidates(now_ms), slot.constant_until_ms(now_ms)]
    for at_ms in range(max(0, now_ms - 1_000), now_ms + 1, 100):
        for by in (Reader(), Reader("User:a", at_ms), Reader("User:b", max(0, at_ms - 500), at_ms)):
            found.append([slot.has_other(group, at_ms, by) for group in (None, "g0")])
            found.append({(c.group, c.member_id, c.first_ms, c.last_ms, c.left_ms) for c in slot.opaque(at_ms, by)})
            seen = [Observation(place, max(0, at_ms - 200), at_ms) for place in PLACES[:2]]
            found += [slot.fitting(seen, by), slot.absent(["g0", "g1", "g2"], seen, by)]
            for place in PLACES:
                found.append(slot.possible(place, at_ms, by))
                found.append({claim.member_id for claim in slot.owners(*place, at_ms, by, group="g1")})
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_index_is_as_if_built_anew(seed: int) -> None:
    choose = random.Random(seed)
    slot, now_ms = Slot(GRACE_MS), 10_000
    present: set[tuple[str, str]] = set()
    for _ in range(60):
        now_ms += choose.choice((0, 1, 50, 400) if seed % 2 else (0, 1))
        member = choose.choice(MEMBERS if seed % 2 else MEMBERS[:2])
        if member in present and choose.random() < 0.1:
            slot.reveal(member, "User:a")
        elif member in present:
            present.discard(member)
            slot.end(member, now_ms, left=choose.random() < 0.3)
        else:
            present.add(member)
            places = choose.choice((None, frozenset(), frozenset(choose.sample(PLACES, 2))))
            is_member, principal = choose.random() < 0.8, choose.choice(PRINCIPALS)
            slot.begin(member, Tenure(places if is_member else places or frozenset(), is_member, now_ms, principal))
        if choose.random() < 0.1:
            slot.prune(now_ms - 800)
            present &= set(slot._histories)
        followed = results(slot, now_ms)
        slot._index = None
        assert followed == results(slot, now_ms)
    for member in present:
        slot.end(member, now_ms)
    slot.prune(now_ms + 1)
    index = slot._indexed()
    left = (slot._histories, index.owners, index.presences(), index.changes, index.boundaries)
    assert not any(left), left


def test_a_change_costs_what_the_member_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what all the others claim under the same key."""
    slot, members = Slot(GRACE_MS), [("g", f"m{number}") for number in range(500)]
    tenure = Tenure(frozenset(PLACES), member=True, since_ms=10_000)
    for member in members:
        slot.begin(member, tenure)
        slot.end(member, 20_000)
        slot.begin(member, tenure)
    assert slot.count == len(members)
    added: list[Claim] = []
    add = Index.add

    def recorded(index: Index, claim: Claim) -> None:
        added.append(claim)
        add(index, claim)

    monkeypatch.setattr(Index, "add", recorded)
    slot.end(members[0], 30_000, left=True)
    slot.begin(members[0], tenure)
    slot.reveal(members[0], "User:a")
    for now_ms in range(30_001, 30_012):
        slot.end(members[0], now_ms)
        slot.begin(members[0], tenure)
    assert slot.count == len(members)
    assert {claim.member_id for claim in added} == {members[0][1]}
