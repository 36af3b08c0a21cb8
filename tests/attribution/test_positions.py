"""Received offsets are found, however many came before and whenever one looks."""

from __future__ import annotations

import random

import pytest

from muster.gateway.attribution import positions
from muster.gateway.attribution.positions import POSITION_MS, Positions
from muster.placement.client import ANONYMOUS
from muster.placement.mapping.registration import Position
from tests.attribution.bench import HOST, Coordinator

CLIENTS = ("a", "b")
MEMORY_MS = 1_000


class Looking(Positions):
    """Takes every response apart at once."""

    def add(self, position: Position, now_ms: int) -> None:
        super().add(position, now_ms)
        self._of((position.host, position.client_id), ("", 0))


@pytest.mark.parametrize("seed", range(20))
def test_it_makes_no_difference_when_one_looks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "_MAX_PER_PARTITION", 3)
    chance = random.Random(seed)
    late, early, coordinator, now_ms = Positions(memory_ms=MEMORY_MS), Looking(memory_ms=MEMORY_MS), Coordinator(), 0
    for _ in range(300):
        now_ms += chance.choice((0, 10, 1_000, 20_000))
        partitions = chance.sample(range(3), chance.randint(1, 3))
        offsets = {partition: chance.randint(0, 2) for partition in partitions}
        group, client = chance.choice("gh"), chance.choice(CLIENTS)
        position = coordinator.position(group, "m", offsets, client_id=client, is_hint=chance.random() < 0.2)
        has_to_prune = chance.random() < 0.1
        for each in (late, early):
            each.add(position, now_ms)
            if has_to_prune:
                each.prune(now_ms)
        if chance.random() < 0.2:
            end = (
                (HOST, chance.choice(CLIENTS)),
                ("t", chance.randint(0, 2)),
                chance.randint(0, 2),
                chance.choice("gh"),
            )
            for each in (late, early):
                each.add_one(*end, now_ms, ANONYMOUS, is_end=True)
        if chance.random() < 0.2:
            place, offset = ("t", chance.randint(0, 2)), chance.randint(0, 2)
            first_ms = now_ms - chance.choice((0, 100, MEMORY_MS))
            where = ((HOST, chance.choice(CLIENTS)), place, offset, first_ms, ANONYMOUS)
            assert late.groups_at(*where) == early.groups_at(*where)
            assert late.group_at(*where, {"g", "h"}) == early.group_at(*where, {"g", "h"})


def test_what_is_too_old_is_forgotten() -> None:
    received, coordinator = Positions(memory_ms=MEMORY_MS), Coordinator()
    for at_ms in range(0, 10 * POSITION_MS, 1_000):
        received.add(coordinator.position("g", "m", {0: at_ms}, client_id=f"c{at_ms % 7_000}"), at_ms)
        received.prune(at_ms)
        assert sum(len(alike) for each in received._whole.values() for alike in each.values()) <= 63
    received.prune(20 * POSITION_MS)
    assert not received._whole
    assert not received._whole_ages
