"""Pushes, built like those of clients."""

from __future__ import annotations

from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

DELTA = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


def gauge(data: MetricsData, name: str, value: float, **attributes: str) -> None:
    point = _metric(data, name).gauge.data_points.add()
    point.as_double = value
    for key, text in attributes.items():
        point.attributes.add(key=key).value.string_value = text


def counter(data: MetricsData, name: str, value: int, temporality: int = DELTA) -> None:
    total = _metric(data, name).sum
    total.is_monotonic, total.aggregation_temporality = True, temporality
    total.data_points.add().as_int = value


def _metric(data: MetricsData, name: str):  # type: ignore[no-untyped-def]
    if not data.resource_metrics:
        data.resource_metrics.add().scope_metrics.add()
    return data.resource_metrics[0].scope_metrics[0].metrics.add(name=name)
