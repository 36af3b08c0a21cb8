"""The fixtures on a real Muster, by every Python and the oldest pytest that the plugin is for: make test-versions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_muster import Cluster, FaultClient, InvalidFault, Muster, RunningMuster, TopicNotCreated, UnknownTarget

pytest_plugins = ["pytester"]


def topics(muster: Muster) -> set[str]:
    return {each["name"] for each in json.loads(muster.cli("topics", "list", "--json"))}


def test_topics_are_created_at_either(muster: Muster) -> None:
    running = RunningMuster(muster.bootstrap, muster.metrics_urls)
    names = {muster.topic(partitions=2, config={"retention.ms": "600000"}), running.topic()}
    assert len(names) == 2
    assert names <= topics(muster)
    with pytest.raises(TopicNotCreated, match="already exists"):
        running.topic(names.pop())


def test_properties_and_addresses(muster: Muster, muster_properties: dict[str, str]) -> None:
    assert muster_properties == {"message.max.bytes": "2000000"}
    assert muster.properties["message.max.bytes"] == "2000000"
    assert re.fullmatch(r"127\.0\.0\.1:\d+", muster.bootstrap)
    assert muster.metrics_urls == (f"{muster.http_url}/metrics",)


def test_faults(muster: Cluster, muster_faults: FaultClient) -> None:
    fault = muster_faults.inject("error", api="Produce", error="NOT_LEADER_OR_FOLLOWER")
    assert [each["id"] for each in muster.faults.faults()] == [fault]
    with pytest.raises(InvalidFault, match="did you mean drop"):
        muster_faults.inject("drpo")
    with pytest.raises(UnknownTarget):
        muster_faults.kill("log-4711")


def test_they_are_cleared_behind_a_test(muster: Cluster) -> None:
    assert muster.faults.faults() == []


def test_a_suite_on_one_that_runs(muster: Cluster, pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(muster, muster_faults): print(muster.topic())")
    where = (f"--muster-bootstrap={muster.bootstrap}", f"--muster-http={muster.http_url}")
    pytester.runpytest_subprocess(*where).assert_outcomes(passed=1)


def test_a_cluster_that_does_not_start(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(muster): pass")
    pytester.makeini("[pytest]\nmuster_properties = no.such.property = 1\n")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*muster: unknown property no.such.property*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_nothing_of_the_server_is_here(muster: Muster) -> None:
    assert Path(muster.storage).is_dir()
    for name in ("ray", "gateway"):
        with pytest.raises(ModuleNotFoundError):
            __import__(name)
