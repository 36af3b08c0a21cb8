"""Reads what clients push: OTLP's MetricsData v1, gauges and sums (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

_MAX_TEXT_CHARS = 500
_MAX_POINTS = 100_000
"""Limit of a push, with attributes, metrics and containers. Kafka's clients push some hundreds."""


class Unreadable(ValueError):
    """Message that is no MetricsData."""


class Point(NamedTuple):
    """A value of a metric."""

    metric: str
    """The client's name, such as ``org.apache.kafka.consumer.fetch.manager.fetch.latency.avg``."""
    attributes: str
    """``name=value``, sorted, with commas between."""
    value: float
    is_counter: bool
    """Whether it only grows."""
    is_delta: bool
    """Whether it is what was added since the last push."""


def read_metrics(data: bytes) -> list[Point]:
    """Return the points of a push. Histograms, which Kafka's clients do not push, are left out.

    Raises Unreadable, also if there are too many points.
    """
    try:
        pushed = MetricsData.FromString(data)
    except DecodeError as error:
        raise Unreadable(str(error)) from error
    if any(total > _MAX_POINTS for total in accumulate(_counts(pushed))):
        raise Unreadable(f"more than {_MAX_POINTS} points and attributes")
    return [
        point
        for resource in pushed.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in _points(metric)
    ]


def _counts(pushed: Any) -> Iterator[int]:
    """How many elements each container has. Protobuf knows it without making an object of each."""
    yield len(pushed.resource_metrics)
    for resource in pushed.resource_metrics:
        yield len(resource.scope_metrics)
        for scope in resource.scope_metrics:
            yield len(scope.metrics)
            for metric in scope.metrics:
                yield len(metric.gauge.data_points) + len(metric.sum.data_points)
                for point in chain(metric.gauge.data_points, metric.sum.data_points):
                    yield len(point.attributes)


def _points(metric: Any) -> Iterator[Point]:
    name = metric.name[:_MAX_TEXT_CHARS]
    if metric.HasField("gauge"):
        for point in metric.gauge.data_points:
            yield Point(name, _text(point.attributes), _value(point), False, False)
    elif metric.HasField("sum"):
        is_delta = metric.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
        for point in metric.sum.data_points:
            yield Point(name, _text(point.attributes), _value(point), metric.sum.is_monotonic, is_delta)


def _value(point: Any) -> float:
    return float(point.as_int if point.WhichOneof("value") == "as_int" else point.as_double)


def _text(attributes: Iterable[Any]) -> str:
    found = sorted(f"{each.key}={_of_any(each.value)}" for each in attributes)
    return ",".join(found)[:_MAX_TEXT_CHARS]


def _of_any(value: Any) -> str:
    kind = value.WhichOneof("value")
    return "" if kind is None else str(getattr(value, kind))
