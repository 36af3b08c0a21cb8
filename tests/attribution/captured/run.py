"""The scenarios on a Muster of their own, under a packet capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.attribution.captured.capture import Capture
from tests.attribution.captured.comparison import UNITS, Row, read_packets, received, row
from tests.attribution.captured.scenarios import Scenario
from tests.attribution.captured.stage import PENDING_MS, Stage, counted
from tests.attribution.truth import Group
from tests.muster_process import Muster

_GATEWAYS = ["--gateways", "2"]
_PROPERTIES = {"attribution.pending.ms": str(PENDING_MS), "group.initial.rebalance.delay.ms": "300"}


def run(scenarios: Sequence[Scenario], folder: Path, note: Callable[[str], object]) -> list[Row]:
    """Play the scenarios one after the other. Raises PermissionError without CAP_NET_RAW, PacketsLost or Unreadable."""
    with Muster(folder / "storage", _GATEWAYS, _PROPERTIES) as muster:
        ports = {int(address.rpartition(":")[2]) for address in muster.ready["bootstrap"]}
        owners: dict[str, Group] = {}
        with Capture(ports) as capture:
            stages = [Stage(each.name, muster.bootstrap, muster.metrics_urls) for each in scenarios]
            for scenario, stage in zip(scenarios, stages, strict=True):
                try:
                    scenario.play(stage)
                finally:
                    stage.end()
                owners |= stage.owners
                note(f"{scenario.name}: {scenario.about}")
            for stage in stages:
                stage.settle()
            truth = received(read_packets(capture.stop(), ports), owners)
        books = {unit: counted(muster.metrics_urls, unit) for unit in UNITS}
    return [row(scenario, truth, books) for scenario in scenarios]
