"""``kafka-features``: the features by which clients choose their protocols (KIP-584)."""

from __future__ import annotations

import re

from tests.conformance.artifacts import Kafka
from tests.conformance.clients import Tools

_ROW = re.compile(
    r"^Feature: (\S+)\s+SupportedMinVersion: (\d+)\s+SupportedMaxVersion: (\d+)\s+FinalizedVersionLevel: (\d+)"
)


def test_describe_has_the_levels_of_groups_and_transactions(bootstrap: str, release: Kafka) -> None:
    lines = Tools(release, bootstrap).run("FeatureCommand", "describe").splitlines()
    found = {row[1]: tuple(map(int, row.groups()[1:])) for row in map(_ROW.match, lines) if row}
    assert (found["group.version"], found["transaction.version"]) == ((0, 1, 1), (0, 2, 2)), lines
