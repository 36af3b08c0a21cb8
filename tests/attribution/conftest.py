from __future__ import annotations

import pytest

from muster.actors.tables.rollup import Sample
from muster.gateway.attribution.account import Account
from tests.attribution.bench import Bench, Sink


@pytest.fixture
def bench() -> Bench:
    sink = Sink()
    return Bench(Account(sink, Sample), sink)
