"""The alert rules over the /metrics of a real Muster: silent while all is well, and when something is broken."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.consumer_groups.groups import PARTITIONS, create
from tests.cluster.consumer_groups.members import Producer
from tests.gateway.metrics.promtool import MINUTES, firing, series_of, up
from tests.muster_process import Muster, eventually

pytestmark = pytest.mark.ring(name="operations")


def scrapes(muster: Muster) -> list[str]:
    found = []
    for url in muster.metrics_urls:
        with urllib.request.urlopen(url, timeout=10) as response:
            found.append(response.read().decode())
    return found


def values(scrape: str, name: str, group: str | None = None) -> list[float]:
    """Return the values of all series of that name, or of one group."""
    samples = [sample for family in text_string_to_metric_families(scrape) for sample in family.samples]
    return [each.value for each in samples if each.name == name and group in (None, each.labels.get("group"))]


def test_what_fires_for_a_consumer_that_has_stopped(
    muster: Muster, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    """Two scrapes of its lag, a few seconds apart, continued for half an hour."""
    topic, group = fresh("t"), fresh("stopped")
    create(muster, topic)
    producer = Producer(muster.bootstrap, topic)
    producer.send(PARTITIONS)
    producer.flush()
    consumer = confluent_kafka.Consumer({"bootstrap.servers": muster.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, each, 0) for each in range(PARTITIONS)], asynchronous=False)
    consumer.close()

    def lag() -> tuple[float, dict[str, float]]:
        names = ("muster_group_max_lag_seconds", "muster_group_total_lag_messages")
        now = [scrape for scrape in scrapes(muster) if f'group="{group}"' in scrape]
        return time.monotonic(), {
            name: value for scrape in now for name in names for value in values(scrape, name, group)
        }

    before_s, before = eventually(lag, lambda found: found[1].get("muster_group_max_lag_seconds", 0) > 0, "its lag")
    producer.send(200)
    producer.flush()
    wanted = PARTITIONS + 200
    after_s, after = eventually(lag, lambda found: found[1]["muster_group_total_lag_messages"] == wanted, "more")
    per_minute = {name: (after[name] - before[name]) * 60 / (after_s - before_s) for name in after}
    series = [
        {"series": f'{name}{{group="{group}"}}', "values": f"{after[name]!r}+{per_minute[name]!r}x{MINUTES}"}
        for name in after
    ]
    assert firing(tmp_path, [up(1, 1), *series]) == {"MusterGroupBehind", "MusterGroupFallsBehind"}


def test_what_fires_while_the_controller_is_dead(muster: Muster, tmp_path: Path) -> None:
    muster.until_all_serve()
    well = eventually(
        lambda: scrapes(muster),
        lambda found: all(values(each, "muster_controller_connected") == [1] for each in found),
        "the controller responds to both gateways",
    )
    series = [each for number, scrape in enumerate(well) for each in series_of(scrape, number + 1)]
    of_this_machine = firing(tmp_path, series) - {"MusterStorageNearlyFull"}
    broken: dict[int, str] = {}

    def without_controller() -> dict[int, str]:
        """Return the first such scrape of each gateway: the next controller is there within seconds."""
        for number, scrape in enumerate(scrapes(muster)):
            if values(scrape, "muster_controller_connected") == [0]:
                broken.setdefault(number, scrape)
        return broken

    pid = muster.kill_actor("controller")
    eventually(without_controller, lambda found: len(found) == len(well), "both gateways miss the controller")
    muster.until_back("controller", pid)
    series = [each for number, scrape in sorted(broken.items()) for each in series_of(scrape, number + 1)]
    series = [each if "gateway-2" not in each["series"] or "up{" not in each["series"] else up(2, 0) for each in series]
    fired = firing(tmp_path, series) - of_this_machine - {"MusterStorageNearlyFull"}
    assert fired == {"MusterControllerMissing", "MusterGatewayDown"}
