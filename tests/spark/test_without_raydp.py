"""``muster spark`` on a Ray cluster without RayDP: the module ``raydp`` cannot be imported."""

from __future__ import annotations

import socket
import sys

import pytest

from muster.spark.session import SparkUnavailable, raydp_session


def test_it_says_what_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "raydp", None)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()
        with (
            pytest.raises(SparkUnavailable, match=r"RayDP is not installed here.*muster-kafka\[spark\].*--local"),
            raydp_session(f"{host}:{port}"),
        ):
            pass
