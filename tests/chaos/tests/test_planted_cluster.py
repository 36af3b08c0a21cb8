"""``make test-planted``: a whole Muster from a copy of the tree with a planted bug, and a directed plan that hits it.

test_planted_bugs.py does the same without Ray.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.placement.hashing import partition_for
from tests.chaos.checker import check
from tests.chaos.cluster import ROOT
from tests.chaos.history import read_history
from tests.chaos.plan import OFFSETS_PARTITIONS, WARM_S, Fault, Plan, Worker
from tests.chaos.run import Run
from tests.chaos.tests.bugs import COMMIT_BEFORE_DURABLE, Bug, copy_of_the_tree

pytestmark = pytest.mark.planted

TOPIC, GROUP = "orders", "readers"
MEMBERS = ("member-0", "member-1")
_AWAY_S = 8.0


def directed() -> Plan:
    """The members are killed right before their coordinator, so that no later commit hides the loss."""
    kills = [Fault(at_s=WARM_S, kind="client-kill", target=name, for_s=_AWAY_S) for name in MEMBERS]
    coordinator = f"offsets-{partition_for(GROUP, OFFSETS_PARTITIONS)}"
    return Plan(
        seed=0,
        minutes=0.5,
        topics={TOPIC: 2},
        workers=(
            Worker(name="producer", role="producer", library="confluent", topics=(TOPIC,)),
            *(Worker(name=n, role="consumer", library="confluent", topics=(TOPIC,), group=GROUP) for n in MEMBERS),
        ),
        faults=(*kills, Fault(at_s=WARM_S, kind="kill", target=coordinator)),
    )


@pytest.mark.timeout(400)
@pytest.mark.parametrize("bug", [None, COMMIT_BEFORE_DURABLE], ids=["sound", "planted"])
def test_a_commit_that_was_acknowledged_too_early(bug: Bug | None, tmp_path: Path) -> None:
    tree = ROOT
    if bug is not None:
        tree = copy_of_the_tree(tmp_path / "tree")
        bug.plant(tree)
    folder = tmp_path / "chaos"
    folder.mkdir()
    Run(directed(), folder, tree, 50, print).go()
    violated = {violation.rule for violation in check(read_history(folder / "journals"))}
    assert violated == set() if bug is None else "commits_are_kept" in violated
