"""Where commands get the status from: a gateway of the run state, else the Ray that it names."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from muster.gateway.cli import http, running
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.running import status_of
from tests.cli.test_coordinator import NO_RAY, OTHER, gateways

STATUS = {"of": "gateway"}
RESPONSE = (200, json.dumps(STATUS).encode())


def test_the_first_gateway_that_has_one(tmp_path: Path) -> None:
    with gateways(tmp_path, None, (200, b"no JSON"), (200, b"[]"), (404, b""), OTHER, RESPONSE):
        assert status_of(tmp_path, None) == STATUS


@pytest.mark.parametrize("response", [None, OTHER, (503, b'{"error": "the controller"}'), (403, b"{}"), (404, b"")])
def test_through_ray_if_none_has(tmp_path: Path, response: tuple[int, bytes] | None) -> None:
    with gateways(tmp_path, response), pytest.raises(CliError, match=f"no Ray responds at {NO_RAY}"):
        status_of(tmp_path, None)


def test_a_muster_whose_up_was_killed_is_said_to_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with gateways(tmp_path, RESPONSE):
        (tmp_path / "run" / "lock").unlink()
        assert status_of(tmp_path, None) == STATUS
    assert "was killed, but its actors still serve" in capsys.readouterr().err


def test_gateways_that_say_nothing_take_a_limited_time_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_STATUS_S", 0.05)
    monkeypatch.setattr(running, "_KNOWN_S", 0.01)
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        urls = [f"http://127.0.0.1:{each.getsockname()[1]}/metrics" for each in silent]
        stack.enter_context(gateways(tmp_path, urls=urls))
        with pytest.raises(CliError, match=f"no Ray responds at {NO_RAY}"):
            status_of(tmp_path, None)
        silent[0].accept()[0].close()
        silent[1].setblocking(False)
        with pytest.raises(BlockingIOError):
            silent[1].accept()


def test_no_gateway_is_tried_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = "http://127.0.0.1:1/metrics", "http://127.0.0.1:2/metrics"
    actors = [{"metrics_url": old}, {"metrics_url": None}, {"metrics_url": new}]
    monkeypatch.setattr(http, "status_over_ray", lambda *_: {"cluster_id": "own", "actors": actors})
    with gateways(tmp_path, urls=[old]):
        assert [*http.gateways(tmp_path, None)] == [(old, "own"), (new, "own")]
