"""Configs of a subscription to client metrics. Source: Kafka's ClientMetricsConfigs (KIP-714)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from muster.actors.config.types import ConfigType

METRICS, INTERVAL_MS, MATCH = "metrics", "interval.ms", "match"
ALL_METRICS = "*"
DEFAULT_INTERVAL_MS = 300_000
_MIN_INTERVAL_MS, _MAX_INTERVAL_MS = 100, 3_600_000
MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""Labels of clients for patterns of ``match`` (KIP-714)."""


class ClientMetricsConfig(NamedTuple):
    """One config."""

    default: str
    type: ConfigType
    documentation: str


CLIENT_METRICS_CONFIGS: Mapping[str, ClientMetricsConfig] = {
    INTERVAL_MS: ClientMetricsConfig(
        str(DEFAULT_INTERVAL_MS), ConfigType.INT, "How often the clients push their metrics, in ms."
    ),
    MATCH: ClientMetricsConfig(
        "",
        ConfigType.LIST,
        f"NAME=PATTERN[,NAME=PATTERN...]: the clients that match all; empty: all clients. Names: {', '.join(MATCHED)}.",
    ),
    METRICS: ClientMetricsConfig(
        "", ConfigType.LIST, f"Prefixes of the names of the metrics that are wanted; {ALL_METRICS}: all."
    ),
}


class InvalidSubscription(ValueError):
    """``code`` is Kafka's."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def check_client_metrics(config: Mapping[str, str]) -> None:
    """Check the configs of a subscription. Raises InvalidSubscription."""
    for name, value in config.items():
        if name not in CLIENT_METRICS_CONFIGS:
            raise InvalidSubscription(ErrorCode.invalid_request, f"Unknown client metrics configuration: {name}")
        if name == INTERVAL_MS:
            _check_interval(value)
        elif name == MATCH:
            patterns(value)


def _check_interval(text: str) -> None:
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", text):
        message = f"Invalid value {text} for configuration {INTERVAL_MS}: Not a number of type INT"
        raise InvalidSubscription(ErrorCode.invalid_config, message)
    if not _MIN_INTERVAL_MS <= int(text) <= _MAX_INTERVAL_MS:
        message = f"Invalid value {text} for {INTERVAL_MS}, interval must be between 100 and 3600000 (1 hour)"
        raise InvalidSubscription(ErrorCode.invalid_request, message)


def patterns(text: str) -> dict[str, re.Pattern[str]]:
    """Return the patterns of ``match``, by label. Raises InvalidSubscription."""
    found: dict[str, re.Pattern[str]] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, pattern = part.partition("=")
        try:
            if not equals or "=" in pattern or name.strip() not in MATCHED:
                raise re.error(part)
            found[name.strip()] = re.compile(pattern.strip())
        except re.error:
            message = f"Illegal client matching pattern: {part}"
            raise InvalidSubscription(ErrorCode.invalid_config, message) from None
    return found
