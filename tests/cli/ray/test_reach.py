"""Whether Ray can be reached, by its public API alone: a GCS that accepts connections may still say nothing."""

from __future__ import annotations

import socket
import threading

import pytest
import ray

from muster.actors.runtime.ray import public_api
from muster.gateway.cli.ray import reach
from tests.muster_process import eventually

PATIENCE_S = 1.0


def test_a_gcs_that_is_silent_is_lost_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel accepts for it, and ``ray.nodes`` waits for ever."""
    monkeypatch.setenv(public_api.PUBLIC_API_ONLY, "1")
    monkeypatch.setenv(reach._RAY_PATIENCE, str(2 * PATIENCE_S))
    responds = threading.Event()

    def nodes() -> list[dict[str, object]]:
        responds.wait()
        return [{"NodeID": "here", "Alive": True}]

    monkeypatch.setattr(ray, "nodes", nodes)
    monkeypatch.setattr(reach, "_RESPONDS_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = reach.Reach(f"127.0.0.1:{server.getsockname()[1]}", "here")
        assert not found.responds
        assert "nothing has responded there for 1 s" in str(eventually(found.missing, bool, "it is lost"))
        responds.set()
        eventually(lambda: found.responds, bool, "it responds again")
        assert found.missing() is None


def test_a_gcs_that_takes_its_time_responds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second is too short to call it lost: what is to be stopped there would stay."""
    monkeypatch.setenv(public_api.PUBLIC_API_ONLY, "1")
    monkeypatch.setattr(reach, "_LISTENS_S", 0.05)
    responds = threading.Event()

    def nodes() -> list[dict[str, object]]:
        responds.wait()
        return [{"NodeID": "here", "Alive": True}]

    monkeypatch.setattr(ray, "nodes", nodes)
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = reach.Reach(f"127.0.0.1:{server.getsockname()[1]}", "here")
        timer = threading.Timer(0.5, responds.set)
        timer.start()
        assert found.responds
        timer.join()


def test_an_error_of_ray_is_no_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(public_api.PUBLIC_API_ONLY, "1")

    def nodes() -> list[dict[str, object]]:
        raise RuntimeError("Ray has not been started yet")

    monkeypatch.setattr(ray, "nodes", nodes)
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = reach.Reach(f"127.0.0.1:{server.getsockname()[1]}", "here")
        assert not found.responds
