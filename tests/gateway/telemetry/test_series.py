"""Reading of a push, and the series that come of it."""

from __future__ import annotations

from uuid import UUID

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from muster.gateway.telemetry.otlp import Point, Unreadable, read_metrics
from muster.gateway.telemetry.series import ClientSeries
from tests.gateway.telemetry.pushes import CUMULATIVE, counter, gauge

ONE, OTHER = UUID(int=1), UUID(int=2)


def values(series: ClientSeries) -> dict[tuple[UUID, str, str], float]:
    return {(each.instance_id, each.group, each.key.metric): each.value for each in series}


def test_points_of_a_push() -> None:
    data = MetricsData()
    gauge(data, "org.a", 1.5, topic="t", partition="0")
    counter(data, "org.b", 7)
    counter(data, "org.c", 8, CUMULATIVE)
    assert read_metrics(data.SerializeToString()) == [
        Point("org.a", "partition=0,topic=t", 1.5, False, False),
        Point("org.b", "", 7, True, True),
        Point("org.c", "", 8, True, False),
    ]
    assert read_metrics(b"") == []
    with pytest.raises(Unreadable):
        read_metrics(b"\xff\xff\xff")


def test_deltas_add_up_and_the_rest_is_replaced() -> None:
    series = ClientSeries(10)
    for number in (1, 2):
        points = [Point("g", "", number, False, False), Point("d", "", number, True, True)]
        series.add(ONE, "group", "c", [*points, Point("c", "", number, True, False)])
    assert values(series) == {(ONE, "group", "g"): 2, (ONE, "group", "d"): 3, (ONE, "group", "c"): 2}


def test_a_group_that_is_known_later() -> None:
    series = ClientSeries(10)
    for group in (None, "group", None):
        series.add(ONE, group, "c", [Point("g", "", 1, False, False)])
    assert values(series) == {(ONE, "group", "g"): 1}


def test_no_more_than_the_limit() -> None:
    series = ClientSeries(3)
    points = [Point(name, "", 1, False, False) for name in "abcd"]
    series.add(ONE, None, "c", points)
    series.add(OTHER, None, "c", points[:1])
    assert (series.count, series.left_out) == (3, 2)
    series.forget([ONE, OTHER])
    series.add(OTHER, None, "c", points[:1])
    assert (series.count, series.left_out, len(values(series))) == (1, 2, 1)
    series.add(OTHER, None, "c", [Point("n", "", float("nan"), False, False)])
    assert series.count == 1
