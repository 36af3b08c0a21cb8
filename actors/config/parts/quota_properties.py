"""Properties of quotas and of connections' limits. Sources as in :mod:`muster.actors.config.properties`."""

from __future__ import annotations

import ipaddress

from pydantic import BaseModel, Field, field_validator

from muster.actors.config.types import Int, Text

_MAX_INT = 2**31 - 1


class QuotaProperties(BaseModel):
    """A part of :class:`muster.actors.config.properties.MusterConfig`."""

    quota_window_num: Int = Field(
        11, ge=1, description="Number of samples over which the rates of clients, groups and connections are measured."
    )
    quota_window_size_seconds: Int = Field(1, ge=1, description="Length of a sample of quota.window.num, in seconds.")
    controller_quota_window_num: Int = Field(
        11,
        ge=1,
        description="Number of samples over which controller_mutation_rate is measured; a client may use the quota of "
        "all of them at once.",
    )
    controller_quota_window_size_seconds: Int = Field(
        1, ge=1, description="Length of a sample of controller.quota.window.num, in seconds."
    )
    max_connections_per_ip: Int = Field(
        _MAX_INT,
        ge=0,
        description="Maximum number of connections from one address to a gateway; further ones are closed at once.",
    )
    max_connections_per_ip_overrides: Text | None = Field(
        None, description="ADDRESS:NUMBER with commas: max.connections.per.ip of these addresses."
    )
    max_connection_creation_rate: Int = Field(
        _MAX_INT,
        ge=1,
        description="Maximum number of connections per second that a gateway accepts; others wait. For one listener: "
        "listener.name.NAME.max.connection.creation.rate, NAME in lower case.",
    )
    metrics_max_connections: Int = Field(
        1_000, ge=1, description="Maximum number of connections to a gateway's HTTP port; further ones are closed."
    )

    @field_validator("max_connections_per_ip_overrides")
    @classmethod
    def _addresses_and_numbers(cls, text: str | None) -> str | None:
        if text is not None:
            parse_overrides(text)
        return text


def parse_overrides(text: str) -> dict[str, int]:
    """Limits by address, in canonical text. Raises ValueError."""
    found: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, _, number = entry.rpartition(":")
        try:
            address = ipaddress.ip_address(host.strip().strip("[]"))
            mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
            found[str(mapped or address)] = _number(number)
        except ValueError:
            raise ValueError(f"has {entry}, which is not ADDRESS:NUMBER") from None
    return found


def _number(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError(text)
    return int(text)
