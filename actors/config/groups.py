"""Configs of one group. Source: Kafka's GroupConfig (KIP-848)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from actors.config.types import Int

_NO_EFFECT = "no effect on groups of the classic protocol, which are all that there are."


class GroupConfigs(BaseModel):
    """Those of consumer groups. What stands in where one is not set has the same name behind ``group.``."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=lambda name: name.replace("_", "."))

    consumer_assignment_interval_ms: Int = Field(
        1_000, ge=0, description=f"Least time between two assignments, in ms; {_NO_EFFECT}"
    )
    consumer_heartbeat_interval_ms: Int = Field(
        5_000, ge=1, description=f"How often members are told to send a heartbeat, in ms; {_NO_EFFECT}"
    )
    consumer_session_timeout_ms: Int = Field(
        45_000, ge=1, description=f"When a member that sends no heartbeat is gone, in ms; {_NO_EFFECT}"
    )
