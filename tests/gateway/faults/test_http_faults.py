"""The fault API over HTTP: its responses, messages, description, and plans."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
import pytest
import yaml
from jsonschema import Draft202012Validator

from muster.actors.faults.control import Process
from muster.gateway.http.openapi.document import document
from pytest_muster import FaultClient, FaultsDisabled, InvalidFault, UnknownTarget, Unreachable
from tests.faults.test_model import BAD, GOOD
from tests.gateway.fault_client import PROPERTIES
from tests.gateway.local_faults import NODE
from tests.gateway.serving import Serving

__all__ = ["PROPERTIES"]

JSON = "application/json"


@pytest.fixture
def faults(full: Serving) -> Iterator[FaultClient]:
    client = FaultClient(full.http_url)
    yield client
    client.clear()


@pytest.fixture
def actor(full: Serving, request: pytest.FixtureRequest) -> Iterator[psutil.Process]:
    """Yield the process of ``log-0``, or of the requested actor."""
    name = getattr(request, "param", "log-0")
    child = subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
    local = full.controller.faults
    assert local is not None
    local.processes[name] = Process(child.pid, NODE)
    yield psutil.Process(child.pid)
    del local.processes[name]
    child.kill()
    child.wait()


def send(full: Serving, method: str, path: str, body: Any = None, content_type: str = JSON) -> tuple[int, Any]:
    """Status and response; a body that is not text is sent as JSON."""
    data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
    request = Request(full.http_url + path, data, {"Content-Type": content_type}, method=method)
    try:
        with urlopen(request, timeout=20) as response:
            return response.status, json.loads(response.read())
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_inject_list_clear(full: Serving, faults: FaultClient) -> None:
    status, injected = send(full, "POST", "/v1/faults", {"action": "drop", "group": "g", "expires_ms": 60_000})
    assert (status, injected["late_gateways"]) == (201, [])
    status, listed = send(full, "GET", "/v1/faults")
    (active,) = listed["faults"]
    assert active["fault"] == {"action": "drop", "group": "g", "expires_ms": 60_000}
    assert active["expires_at_ms"] - active["injected_ms"] == 60_000
    assert send(full, "DELETE", f"/v1/faults/{injected['id']}") == (200, {"cleared": [injected["id"]]})
    assert send(full, "DELETE", f"/v1/faults/{injected['id']}")[0] == 404
    assert send(full, "DELETE", "/v1/faults") == (200, {"cleared": []})


@pytest.mark.parametrize(
    ("body", "content_type", "status", "text"),
    [
        ({"action": "drpo", "when": 5}, JSON, 400, "action: 'drpo' is not known (did you mean drop?)"),
        ("{", JSON, 400, "the body is not JSON"),
        ("", JSON, 400, "the body is not JSON"),
        ("[]", JSON, 400, "a fault is an object with an action"),
        ('{"action": "drop"}', "text/plain", 415, "the body must be application/json"),
        ({"action": "kill", "actor": "log-7"}, JSON, 404, "there is no log-7"),
        ({"action": "pause", "actor": "log-7"}, JSON, 404, "there is no log-7"),
    ],
)
def test_what_is_refused(full: Serving, body: Any, content_type: str, status: int, text: str) -> None:
    answered, response = send(full, "POST", "/v1/faults", body, content_type)
    assert answered == status
    assert text in response["error"]
    assert send(full, "GET", "/v1/faults")[1] == {"faults": []}


def test_problems_are_reported_one_by_one(full: Serving) -> None:
    _, response = send(full, "POST", "/v1/faults", {"action": "delay", "api": "X", "delay_ms": 0})
    assert [problem.split()[0] for problem in response["problems"]] == ["api:", "delay_ms"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/faults"),
        ("POST", "/v1/faults"),
        ("DELETE", "/v1/faults"),
        ("DELETE", "/v1/faults/f-1"),
        ("POST", "/v1/faults/plan"),
    ],
)
def test_everything_is_refused_unless_it_is_enabled(served: Serving, method: str, path: str) -> None:
    status, response = send(served, method, path, {"action": "drop"} if method == "POST" else None)
    assert status == 403
    assert "fault.injection.enable=true" in response["error"]
    assert send(served, "GET", "/v1/openapi.json")[0] == 200
    with pytest.raises(FaultsDisabled, match="fault injection is off"):
        FaultClient(served.http_url).inject("drop")


class TestClient:
    def test_errors_have_types(self, full: Serving, faults: FaultClient) -> None:
        with pytest.raises(InvalidFault, match="delay needs delay_ms"):
            faults.inject("delay")
        with pytest.raises(UnknownTarget, match="there is no fault f-0"):
            faults.clear("f-0")
        with pytest.raises(UnknownTarget, match="there is no offsets-"):
            faults.kill(group="g")
        full.controller.away = True
        try:
            with pytest.raises(Unreachable, match="the controller does not respond"):
                faults.faults()
        finally:
            full.controller.away = False

    def test_it_goes_on_to_a_gateway_that_listens(self, full: Serving, served: Serving) -> None:
        gone = "http://127.0.0.1:1/metrics"
        assert FaultClient(gone, full.http_url).faults() == []
        assert FaultClient(f"{gone},{full.http_url}/metrics").faults() == []
        with pytest.raises(Unreachable, match="no gateway listens at"):
            FaultClient(gone).faults()

    def test_actors(self, faults: FaultClient, actor: psutil.Process) -> None:
        paused = faults.pause("log-0")
        assert actor.status() == psutil.STATUS_STOPPED
        slow = faults.slow("log-0", 0.5)
        assert [one["id"] for one in faults.faults()] == [slow] != [paused]
        assert faults.resume("log-0") == slow
        faults.kill("log-0")
        assert actor.wait(20) is None or not actor.is_running()

    @pytest.mark.parametrize(
        ("actor", "name"), [(name, name) for name in ("controller", "gateway-1")], indirect=["actor"]
    )
    def test_what_the_gateway_has_to_do_itself(self, faults: FaultClient, actor: psutil.Process, name: str) -> None:
        """The controller cannot stop itself, nor a gateway before it has responded."""
        with pytest.raises(UnknownTarget, match="nothing else could end it"):
            faults.pause(name)
        fault = faults.pause(name, expires_ms=600_000)
        while name != "controller" and not faults.faults():
            continue
        assert actor.status() == psutil.STATUS_STOPPED
        assert faults.clear() == ([] if name == "controller" else [fault])
        faults.kill(name)
        actor.wait(20)

    def test_a_held_process_that_ends_has_no_fault(self, faults: FaultClient, actor: psutil.Process) -> None:
        faults.pause("log-0")
        actor.kill()
        while faults.faults():
            continue

    def test_actor_faults_are_in_the_metric(
        self, full: Serving, faults: FaultClient, actor: psutil.Process, caplog: pytest.LogCaptureFixture
    ) -> None:
        fault = faults.pause("log-0", expires_ms=1)
        assert f"fault {fault} of User:ANONYMOUS at 127.0.0.1: pause log-0, pid {actor.pid}" in caplog.text
        _, text = full.http("/metrics")
        assert 'muster_faults_injected_total{gateway="1",action="pause",api="",actor="log-0"}' in text


def admitted_by(name: str) -> Callable[[Any], bool]:
    """Whether the description has it as one of these."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": document()["components"]}
    is_valid: Callable[[Any], bool] = Draft202012Validator(schema).is_valid
    return is_valid


class TestDescription:
    def test_it_admits_the_same_faults(self) -> None:
        """Only the server checks what the description omits (requests of an API, actors by name)."""
        admits = admitted_by("Fault")
        assert all(admits(fields) for fields in GOOD)
        together = ("needs either", "names no", "is no error")
        assert not [fields for fields, text in BAD if admits(fields) and not any(part in text for part in together)]

    def test_responses_are_as_described(self, full: Serving, faults: FaultClient, actor: psutil.Process) -> None:
        faults.inject("drop", when={"nth": 2})
        faults.pause("log-0")
        responses = {
            "Injected": send(full, "POST", "/v1/faults", {"action": "drop"})[1],
            "Faults": send(full, "GET", "/v1/faults")[1],
            "Error": send(full, "POST", "/v1/faults", {})[1],
            "Cleared": send(full, "DELETE", "/v1/faults")[1],
        }
        assert [name for name, response in responses.items() if not admitted_by(name)(response)] == []

    def test_it_admits_the_same_plans(self) -> None:
        admits = admitted_by("Plan")
        assert admits(PLAN)
        assert all(admits({"steps": [{"at": "1s", **fields}]}) for fields in GOOD)
        bad = ({"action": "kill"}, {"at": 1}, {"at": 1, "action": "drop", "clear": "all"}, {"at": 1, "action": "delay"})
        assert not [step for step in bad if admits({"steps": [step]})]


PLAN = {
    "name": "short",
    "seed": 5,
    "steps": [
        {"at": 0, "name": "dropped", "action": "drop", "group": "g", "when": {"probability": 0.5}},
        {"at": "20ms", "action": "close", "group": "g"},
        {"at": "40ms", "clear": "dropped"},
    ],
}


class TestPlans:
    @pytest.mark.parametrize("is_file", [False, True])
    def test_run_by_the_client(self, faults: FaultClient, is_file: bool, tmp_path: Path) -> None:
        steps: list[tuple[int, str]] = []
        (tmp_path / "plan.yaml").write_text(yaml.safe_dump(PLAN))
        plan = tmp_path / "plan.yaml" if is_file else PLAN
        faults.run(plan, lambda step, result: steps.append((step["step"], result)))
        (left,) = faults.faults()
        assert left["fault"] == {"action": "close", "group": "g"}
        assert [number for number, _ in steps] == [1, 2, 3]
        assert steps[2][1] == f"cleared {steps[0][1]}"

    def test_a_step_that_is_refused_ends_the_plan_and_its_faults(self, faults: FaultClient) -> None:
        steps = [
            {"at": 0, "action": "drop"},
            {"at": 0, "action": "kill", "actor": "log-9"},
            {"at": 0, "action": "drop"},
        ]
        with pytest.raises(UnknownTarget):
            faults.run({"steps": steps})
        assert faults.faults() == []

    def test_run_by_the_gateway(self, full: Serving, faults: FaultClient) -> None:
        """A line for each step."""
        request = Request(f"{full.http_url}/v1/faults/plan", json.dumps(PLAN).encode(), {"Content-Type": JSON})
        with urlopen(request, timeout=20) as response:
            lines = [json.loads(line) for line in response]
        assert [(line["step"], line["at_ms"]) for line in lines] == [(1, 0), (2, 20), (3, 40)]
        assert lines[2]["cleared"] == [lines[0]["id"]]
        assert lines[0]["does"].startswith("drop group=g when=")
        assert [one["id"] for one in faults.faults()] == [lines[1]["id"]]

    def test_a_client_that_goes_away_ends_the_plan_and_its_faults(self, full: Serving, faults: FaultClient) -> None:
        steps = [{"at": 0, "action": "drop", "group": "g"}, {"at": "10m", "action": "close"}]
        request = Request(
            f"{full.http_url}/v1/faults/plan", json.dumps({"steps": steps}).encode(), {"Content-Type": JSON}
        )
        with urlopen(request, timeout=20) as response:
            response.readline()
            assert len(faults.faults()) == 1
        while faults.faults():
            continue

    def test_a_plan_that_cannot_be_does_nothing(self, full: Serving, faults: FaultClient) -> None:
        steps = [{"at": 0, "action": "drop"}, {"at": 1, "action": "delay"}]
        status, response = send(full, "POST", "/v1/faults/plan", {"steps": steps})
        assert (status, response["problems"]) == (400, ["step 2: delay needs delay_ms"])
        assert faults.faults() == []

    def test_a_client_with_its_own_times_gets_the_steps(self, full: Serving) -> None:
        status, checked = send(full, "POST", "/v1/faults/plan/check", PLAN)
        assert (status, checked["name"]) == (200, "short")
        assert [(step["step"], step["at_ms"]) for step in checked["steps"]] == [(1, 0), (2, 20), (3, 40)]
        assert checked["steps"][0]["fault"]["when"].keys() == {"probability", "seed"}
        assert checked["steps"][2]["clear"] == 1
        assert admitted_by("CheckedPlan")(checked)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("steps: [", "this is no YAML"),
            ("steps: [{at: 0, action: drpo}]", "did you mean drop"),
            ("steps: [{at: 0, clear: other}]", "no step is named 'other'"),
            (b"steps: \xff", "the body is not UTF-8"),
        ],
    )
    def test_a_file_that_is_no_plan_does_nothing(
        self, faults: FaultClient, text: str | bytes, problem: str, tmp_path: Path
    ) -> None:
        (tmp_path / "plan.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(InvalidFault, match=problem):
            faults.run(tmp_path / "plan.yaml")
        assert faults.faults() == []

    def test_a_step_that_clears_too_early_ends_the_plan(self, faults: FaultClient) -> None:
        steps = [
            {"at": 0, "action": "close"},
            {"at": 1, "name": "later", "action": "drop"},
            {"at": 0, "clear": "later"},
        ]
        with pytest.raises(UnknownTarget, match="before it is injected"):
            faults.run({"steps": steps})
        assert faults.faults() == []

    def test_an_interrupted_plan_clears_its_faults(self, faults: FaultClient) -> None:
        def interrupt(step: Any, result: str) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            faults.run(PLAN, interrupt)
        assert faults.faults() == []


def test_threads_may_share_a_client(faults: FaultClient) -> None:
    threads = [threading.Thread(target=faults.inject, args=({"action": "drop", "group": "g"},)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one["id"] for one in faults.faults()}) == 8


class TestCommand:
    """``muster fault`` on a gateway that can be reached."""

    def muster(self, full: Serving, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "muster.gateway.cli.main", "fault", *arguments, "--http", full.http_url]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def test_inject_list_clear(self, full: Serving, faults: FaultClient) -> None:
        options = ("--api", "Heartbeat", "--group", "g", "--error", "16", "--nth", "2", "--phase", "after")
        done = self.muster(full, "inject", "error", *options)
        (active,) = faults.faults()
        assert done.stdout.strip() == active["id"]
        assert active["fault"] == {
            "action": "error",
            "group": "g",
            "api": "Heartbeat",
            "when": {"nth": 2},
            "phase": "after",
            "error": "NOT_COORDINATOR",
        }
        shown = self.muster(full, "list").stdout
        assert "group=g api=Heartbeat error=NOT_COORDINATOR" in shown
        assert self.muster(full, "clear").stdout.strip() == active["id"]
        assert "no fault is in force" in self.muster(full, "list").stderr

    def test_run(self, full: Serving, faults: FaultClient, tmp_path: Path) -> None:
        plan = tmp_path / "plan.yaml"
        plan.write_text("steps: [{at: 10ms, name: a, action: drop, group: g}, {at: 20ms, clear: a}]")
        lines = self.muster(full, "run", str(plan)).stdout.splitlines()
        assert [line.split()[:3] for line in lines] == [["0.010", "s", "drop"], ["0.020", "s", "clear"]]
        assert faults.faults() == []

    def test_refused_where_it_is_off(self, served: Serving) -> None:
        done = self.muster(served, "inject", "drop")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("muster: fault injection is off; start the cluster with --set fault.injection")
