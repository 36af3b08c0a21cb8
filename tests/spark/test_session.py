from __future__ import annotations

import pytest

from actors import java
from spark.session import SparkUnavailable, local_session, raydp_session


def test_without_java_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_installed", list)
    monkeypatch.setattr(java, "_bundled", lambda: None)
    for session in (local_session(), raydp_session("127.0.0.1:1")):
        with pytest.raises(SparkUnavailable, match=r"\Ano Java .*\Z"), session:
            pass


def test_a_cluster_that_is_too_small_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from spark.session import _check_resources

    _check_resources({"CPU": 2.0, "memory": 1e9}, {"CPU": 1.0, "memory": 5e8})
    with pytest.raises(SparkUnavailable, match=r"CPU 2 of 1\.5"):
        _check_resources({"CPU": 1.5, "memory": 1e9}, {"CPU": 2.0, "memory": 5e8})
