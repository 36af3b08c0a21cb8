from __future__ import annotations

import pytest

from muster.actors.runtime import java
from muster.spark.session import SparkUnavailable, check_resources, local_session, raydp_session

MIB = 1 << 20


def test_without_java_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_installed", list)
    monkeypatch.setattr(java, "_bundled", lambda: None)
    for session in (local_session(), raydp_session("127.0.0.1:1")):
        with pytest.raises(SparkUnavailable, match=r"\Ano Java .*\Z"), session:
            pass


def test_executors_that_find_no_place_are_refused_with_what_is_free() -> None:
    check_resources([{"CPU": 2.0, "memory": 1024.0 * MIB}], executors=2, cores=1, memory_bytes=512 * MIB)
    with pytest.raises(SparkUnavailable) as refused:
        check_resources([{"CPU": 1.5, "memory": 700.0 * MIB}], executors=1, cores=2, memory_bytes=512 * MIB)
    assert "1 x 2 CPU and 512 MiB wanted" in str(refused.value)
    assert "free: 1.5 CPU and 700 MiB" in str(refused.value)


def test_free_on_two_nodes_is_not_free_on_one() -> None:
    nodes = [{"CPU": 1.0, "memory": 600.0 * MIB}] * 2
    check_resources(nodes, executors=2, cores=1, memory_bytes=512 * MIB)
    with pytest.raises(SparkUnavailable, match="1 x 2 CPU"):
        check_resources(nodes, executors=1, cores=2, memory_bytes=512 * MIB)
    with pytest.raises(SparkUnavailable, match="nothing"):
        check_resources([], executors=1, cores=1, memory_bytes=512 * MIB)
