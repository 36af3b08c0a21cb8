"""Resources that have configs: Kafka's ``ConfigResource.Type``."""

from __future__ import annotations

from enum import IntEnum


class ResourceType(IntEnum):
    """Resource types, as numbered in requests."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
