"""Every byte that a pool fetches is counted for its group, also while workers come, die and go."""

from __future__ import annotations

from collections import Counter

import pytest

from muster.pool import Sizing
from tests.cluster.test_attribution import Books, book, by_place, pending, scrape
from tests.muster_process import Muster, eventually
from tests.ray.pool.kit import Kit, kill, until_workers, writing

pytestmark = pytest.mark.ring(name="ray")

COUNT = 400


def test_every_byte_of_a_pool_is_of_its_group(kit: Kit, muster: Muster) -> None:
    kit.produce(COUNT)
    pool = kit.start(writing(kit.out, each_s=0.01), sizing=Sizing(2, 2))
    before = until_workers(pool, 2)
    kit.produce(COUNT, COUNT)
    kit.until_handled(COUNT)
    kill(before[1])
    kit.until_handled(2 * COUNT)
    kit.produce(COUNT, 2 * COUNT)
    kit.until_handled(3 * COUNT)
    kit.until_committed(3 * COUNT)
    pool.stop()
    for unit in ("bytes", "messages"):
        samples = eventually(
            lambda: scrape(muster), lambda found, u=unit: not pending(found, kit.topic, u), "nothing is pending", 90
        )
        total = book(samples, f"muster_fetch_{unit}_total")
        groups = of_topic(book(samples, f"muster_group_fetch_{unit}_total", "group"), kit.topic)
        others = of_topic(book(samples, f"muster_unattributed_fetch_{unit}_total", "reason"), kit.topic)
        assert {key[3] for key in groups} == {kit.group}
        assert not others
        assert by_place(groups) == by_place(of_topic(total, kit.topic))
    assert sum(groups.values()) >= 3 * COUNT


def of_topic(amounts: Books, topic: str) -> Books:
    return Counter({key: amount for key, amount in amounts.items() if key[1] == topic and amount})
