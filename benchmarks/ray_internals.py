"""``python -m benchmarks ray``: what each change to Muster's own Ray gains (docs/ray-internals.md)."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import click
import psutil

from benchmarks.cluster import Cluster, cpu_s, machine, pss_bytes
from benchmarks.report import Figures, output, output_options
from muster.actors.runtime.ray.public_api import PUBLIC_API_ONLY

_WITHOUT = {
    "all changes": "",
    "no change": "",
    "all but the settings": "small_ray.RAY_SETTINGS.clear()",
    "all but the helpers left out": "small_ray.without_helpers = lambda: None",
    "all but the late agents": "small_ray.with_late_agents = lambda: None",
    "all but the forked workers": "small_ray.start_forks = lambda path: None; "
    "small_ray.with_forked_workers = lambda: None",
}
"""Python that ``muster up`` runs first."""
_NO_CHANGE = "no change"
_PROGRAM = "from muster.gateway.cli.ray import small_ray; {}\nfrom muster.gateway.cli.main import main; main()"
_SETTLE_S = 60
"""After a start, the process that forks actors loads schemas for a while, each after a pause."""
_POLL_S = 0.1
_BACK_S = 60
Values = defaultdict[tuple[str, str], list[float]]
"""By figure and unit."""


@contextmanager
def started(variant: str) -> Iterator[tuple[Cluster, float]]:
    """Yield a Muster whose Ray has these changes, and the seconds that its start took."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        cluster = Cluster(Path(name), gateways=1, properties={})
        cluster.program = [sys.executable, "-c", _PROGRAM.format(_WITHOUT[variant])]
        os.environ[PUBLIC_API_ONLY] = str(int(variant == _NO_CHANGE))
        began_s = time.monotonic()
        with cluster:
            yield cluster, time.monotonic() - began_s


def measure(variant: str, rest_s: float, values: Values) -> None:
    with started(variant) as (cluster, took_s):
        logs = cluster.actors("log")  # once all actors serve
        processes = cluster.others()
        values["start", "s"].append(took_s)
        values["processor time of the start", "s"].append(cpu_s(processes))
        values["processes", ""].append(len(processes))
        values["memory (PSS)", "MiB"].append(pss_bytes(processes) / 2**20)
        time.sleep(_SETTLE_S)
        before_s = cpu_s(processes)
        time.sleep(rest_s)
        values["at rest, of a core", "%"].append(100 * (cpu_s(processes) - before_s) / rest_s)
        values["a killed log actor serves again", "s"].append(until_back(cluster, logs["log-0"]))


def until_back(cluster: Cluster, process: psutil.Process) -> float:
    """Kill the actor log-0; return the seconds until it serves in another process."""
    process.kill()
    began_s = time.monotonic()
    while cluster.actors("log")["log-0"].pid == process.pid:
        if time.monotonic() - began_s > _BACK_S:
            raise TimeoutError(f"log-0 does not serve again after {_BACK_S} s")
        time.sleep(_POLL_S)
    return time.monotonic() - began_s


@click.command()
@click.option("--rounds", default=3, show_default=True, help="Starts of each kind; figures are their medians.")
@click.option("--rest", "rest_s", default=20.0, show_default=True, help="Seconds of rest that are measured.")
@output_options
def main(rounds: int, rest_s: float, json_file: Path | None, as_markdown: bool) -> None:
    """Start Muster with all changes to its Ray, with none, and without each; measure start, rest and memory."""
    about, figures = machine(), Figures()
    measured: dict[str, Values] = {variant: defaultdict(list) for variant in _WITHOUT}
    for _ in range(rounds):
        for variant, values in measured.items():
            measure(variant, rest_s, values)
    for variant, values in measured.items():
        for (what, unit), found in values.items():
            figures.add(variant, what, median(found), unit)
    output(figures, about, json_file, as_markdown)
