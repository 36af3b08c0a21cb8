"""The alert rules over the /metrics of a real Muster: silent while all is well, and when something is broken."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.gateway.metrics.promtool import firing, series_of, up
from tests.muster_process import Muster, eventually

pytestmark = pytest.mark.ring(name="operations")


def scrapes(muster: Muster) -> list[str]:
    found = []
    for url in muster.metrics_urls:
        with urllib.request.urlopen(url, timeout=10) as response:
            found.append(response.read().decode())
    return found


def values(scrape: str, name: str) -> list[float]:
    families = text_string_to_metric_families(scrape)
    return [sample.value for family in families for sample in family.samples if sample.name == name]


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
        """The first such scrape of each gateway: the next controller is there within seconds."""
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
