"""pytest-muster on a Muster that is already running."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pytest_muster import RunningMuster, TopicNotCreated
from tests.muster_process import Muster
from tests.plugin.users_environment import run_pytest

SUITE = """
import pytest
from pytest_muster import InvalidFault, UnknownTarget


def test_a_topic_and_a_fault(muster, muster_faults):
    topic = muster.topic(partitions=2)
    fault = muster_faults.inject("error", api="Produce", topic=topic, error="NOT_LEADER_OR_FOLLOWER")
    assert fault in [each["id"] for each in muster.faults.faults()]
    with pytest.raises(InvalidFault, match="did you mean drop"):
        muster_faults.inject("drpo", topic=topic)
    with pytest.raises(UnknownTarget):
        muster_faults.kill("log-4711")
"""


def test_a_suite_on_a_muster_that_runs(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SUITE)
    where = {"MUSTER_BOOTSTRAP": muster.bootstrap, "MUSTER_HTTP": ",".join(muster.metrics_urls)}
    done = run_pytest(Path(sys.executable), tmp_path, **where)
    assert "1 passed" in done.stdout, done.stdout


def test_what_cannot_be_set_any_more_is_said(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmuster_properties = num.partitions = 6\n")
    (tmp_path / "test_it.py").write_text("def test_it(muster): pass\n")
    done = run_pytest(Path(sys.executable), tmp_path, f"--muster-bootstrap={muster.bootstrap}")
    assert f"muster_properties are not set: the Muster at {muster.bootstrap} runs already" in done.stdout
    assert "1 passed, 1 warning" in done.stdout


class TestRunningMuster:
    def test_topics_are_created_once(self, muster: Muster) -> None:
        name = RunningMuster(f"127.0.0.1:1,{muster.bootstrap}").topic(config={"cleanup.policy": "compact"})
        configs = json.loads(muster.cli("topics", "describe", name, "--json"))["configs"]
        assert [each["value"] for each in configs if each["name"] == "cleanup.policy"] == ["compact"]
        with pytest.raises(TopicNotCreated, match="already exists") as refused:
            RunningMuster(muster.bootstrap).topic(name)
        assert refused.value.error_code == 36

    def test_nobody_there(self) -> None:
        with pytest.raises(TopicNotCreated, match=r"no gateway listens at 127.0.0.1:1"):
            RunningMuster("127.0.0.1:1").topic()

    def test_faults_need_an_http_address(self) -> None:
        with pytest.raises(RuntimeError, match="MUSTER_HTTP"):
            _ = RunningMuster("127.0.0.1:1").faults
