"""Consumer groups: a bare core, in virtual time, compared with responses recorded from a real Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.actors.wire.kafka import codec
from tests.scenarios.core_world import CoreWorld
from tests.scenarios.language import load
from tests.scenarios.play import play
from tests.scenarios.suites import KAFKA, difference, paths

NEEDS_A_GATEWAY = {"consumer_offsets"}
"""Fetches all offsets by topic ids, which a gateway adds."""


class _World(CoreWorld):
    early_ms, late_ms = 50, 1_500

    def newest(self, api_key: int) -> int:
        return codec.versions_of(api_key)[-1]


@pytest.mark.parametrize(
    "path",
    [path for path in paths(KAFKA) if path.stem.startswith("consumer_") and path.stem not in NEEDS_A_GATEWAY],
    ids=lambda path: path.stem,
)
def test_scenario(path: Path) -> None:
    scenario = load(path)
    if changed := difference(path.read_text(), play(scenario, _World(scenario)).text()):
        pytest.fail(changed, pytrace=False)
