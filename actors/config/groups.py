"""Configs of one group. Source: Kafka's GroupConfig (KIP-848)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from muster.actors.config.types import Int, problems_of

_NO_EFFECT = "no effect on groups of the classic protocol, which are all that there are."


class GroupConfigs(BaseModel):
    """Configs of consumer groups. The default of each is the property of the same name after ``group.``.

    Bounds are the defaults of Kafka's ``group.consumer.{min,max}.*``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=lambda name: name.replace("_", "."))

    consumer_assignment_interval_ms: Int = Field(
        1_000, ge=0, le=15_000, description=f"Least time between two assignments, in ms; {_NO_EFFECT}"
    )
    consumer_heartbeat_interval_ms: Int = Field(
        5_000, ge=5_000, le=15_000, description=f"How often members should send a heartbeat, in ms; {_NO_EFFECT}"
    )
    consumer_session_timeout_ms: Int = Field(
        45_000, ge=45_000, le=60_000, description=f"When a member that sends no heartbeat is gone, in ms; {_NO_EFFECT}"
    )


GROUP_CONFIGS: tuple[str, ...] = tuple(str(field.alias) for field in GroupConfigs.model_fields.values())


def group_config_errors(config: Mapping[str, str]) -> str | None:
    """Why these configs of a group are refused with INVALID_CONFIG; None if they are valid."""
    problems = [_unknown(name) for name in sorted(set(config) - set(GROUP_CONFIGS))]
    try:
        GroupConfigs.model_validate({name: value for name, value in config.items() if name in GROUP_CONFIGS})
    except ValidationError as error:
        problems += problems_of(error)
    return "; ".join(problems) or None


def _unknown(name: str) -> str:
    if name.startswith(("share.", "streams.")):
        return f"{name} has no effect: Muster has no groups of that type"
    nearest = difflib.get_close_matches(name, GROUP_CONFIGS, n=1, cutoff=0.7)
    return f"Unknown group config name: {name}" + (f" (did you mean {nearest[0]}?)" if nearest else "")
