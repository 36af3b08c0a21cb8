"""A whole Muster from a copy of the tree with a planted bug, and a directed plan that hits it.

test_planted_bugs.py does the same without Ray.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.placement.hashing import partition_for
from tests.chaos.checker import check
from tests.chaos.cluster import ROOT
from tests.chaos.draining import DRAIN_S
from tests.chaos.history import read_history
from tests.chaos.plan import OFFSETS_PARTITIONS, WARM_S, Fault, Plan, Worker
from tests.chaos.run import Run
from tests.chaos.tests.bugs import COMMIT_BEFORE_DURABLE, EPOCH_NOT_BUMPED, Bug, copy_of_the_tree
from tests.chaos.tests.test_planted_bugs import producer
from tests.chaos.tests.test_planted_transactions import COPIES, READERS, Transforming, transformer

pytestmark = pytest.mark.ring(name="planted")

TOPIC, GROUP = "orders", "readers"
MEMBERS = ("member-0", "member-1")
_AWAY_S = 8.0
COPIER = "copier"
_KILL_EVERY_S = 10.0
"""Beside five busy processes a transformer began its first transaction 2 to 11 s after its start."""
_STUCK_S = 20.0
"""After so long, what has not ended does not end."""


def directed() -> Plan:
    """Return a plan that kills the members right before their coordinator, so that no later commit hides the loss.

    The coordinator stands still meanwhile: what it would write later is lost however long the kills take.
    """
    kills = [Fault(at_s=WARM_S, kind="client-kill", target=name, for_s=_AWAY_S) for name in MEMBERS]
    coordinator = f"offsets-{partition_for(GROUP, OFFSETS_PARTITIONS)}"
    pause = Fault(at_s=WARM_S, kind="pause", target=coordinator, for_s=_AWAY_S)
    return Plan(
        seed=0,
        minutes=0.5,
        topics={TOPIC: 2},
        workers=(
            Worker(name="producer", role="producer", library="confluent", topics=(TOPIC,)),
            *(Worker(name=n, role="consumer", library="confluent", topics=(TOPIC,), group=GROUP) for n in MEMBERS),
        ),
        faults=(pause, *kills, Fault(at_s=WARM_S, kind="kill", target=coordinator)),
    )


def replacing() -> Plan:
    """Return a plan that kills a transformer again and again, in its transactions and between them.

    The next one replaces it.
    """
    kills = [
        Fault(at_s=WARM_S + _KILL_EVERY_S * number, kind="client-kill", target=COPIER, for_s=1.0)
        for number in range(1, 4)
    ]
    reader = Worker(name="reader", role="consumer", library="confluent", topics=(COPIES,), group=READERS)
    workers = (producer("producer"), transformer(COPIER), reader)
    return Plan(seed=0, minutes=1.0, topics=dict(Transforming.topics), workers=workers, faults=tuple(kills))


def violated(plan: Plan, bug: Bug | None, folder: Path) -> set[str]:
    """Return the rules that a Muster with the bug violates."""
    tree = ROOT
    if bug is not None:
        tree = copy_of_the_tree(folder / "tree")
        bug.plant(tree)
    chaos = folder / "chaos"
    chaos.mkdir()
    Run(plan, chaos, tree, 50, print, DRAIN_S if bug is None else _STUCK_S).go()
    return {violation.rule for violation in check(read_history(chaos / "journals"))}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("bug", [None, COMMIT_BEFORE_DURABLE], ids=["sound", "planted"])
def test_a_commit_that_was_acknowledged_too_early(bug: Bug | None, tmp_path: Path) -> None:
    found = violated(directed(), bug, tmp_path)
    assert found == set() if bug is None else "commits_are_kept" in found


@pytest.mark.timeout(400)
@pytest.mark.parametrize("bug", [None, EPOCH_NOT_BUMPED], ids=["sound", "planted"])
def test_a_producer_that_is_not_fenced(bug: Bug | None, tmp_path: Path) -> None:
    """The next one begins at sequence 0 in an epoch that has batches: they are out of order, or taken for repeated."""
    found = violated(replacing(), bug, tmp_path)
    assert found == set() if bug is None else found & {"everything_is_committed", "ends_are_kept"}
