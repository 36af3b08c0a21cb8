"""Evaluates the alert rules with promtool, over scrapes of real gateways."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

import muster.gateway

RULES = Path(muster.gateway.__file__).parent / "prometheus" / "alerts.yaml"
MINUTES = 30
"""How long a scrape stays the same, when it is evaluated: longer than any alert waits."""


def alerts() -> dict[str, dict[str, Any]]:
    """Return the rules, by the name of the alert."""
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def promtool(*arguments: str) -> str:
    """Return promtool's output. Raises AssertionError with that if it fails."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def series_of(scrape: str, gateway: int, before: str = "") -> list[dict[str, str]]:
    """Input of a test of promtool: each series of the scrape, steady. ``before``: an earlier one, for counters."""
    earlier = {(name, tuple(labels.items())): value for name, labels, value in _samples(before)}
    found = []
    for name, labels, value in _samples(scrape):
        start = earlier.get((name, tuple(labels.items())), value)
        job = {**labels, "job": "muster", "instance": f"gateway-{gateway}"}
        text = ",".join(f"{key}={json.dumps(text)}" for key, text in job.items())
        found.append({"series": f"{name}{{{text}}}", "values": f"{start!r} {value!r}x{MINUTES}"})
    return [*found, up(gateway, 1)]


def up(gateway: int, value: int) -> dict[str, str]:
    """Return Prometheus's own series about a scrape."""
    return {"series": f'up{{job="muster",instance="gateway-{gateway}"}}', "values": f"{value}x{MINUTES}"}


def firing(folder: Path, series: Iterable[Mapping[str, str]]) -> set[str]:
    """Return the names of the alerts that fire in the end."""
    expected = [{"eval_time": f"{MINUTES}m", "alertname": name, "exp_alerts": []} for name in alerts()]
    test = {"interval": "1m", "input_series": list(series), "alert_rule_test": expected}
    file = folder / "alerts.test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, timeout=120)
    said = done.stdout + done.stderr
    fired = {name for name in alerts() if f"alertname: {name}," in said}
    assert bool(fired) == bool(done.returncode), said
    return fired


def _samples(scrape: str) -> Iterable[tuple[str, dict[str, str], float]]:
    for family in text_string_to_metric_families(scrape):
        for sample in family.samples:
            if not math.isnan(sample.value):
                yield sample.name, sample.labels, sample.value
