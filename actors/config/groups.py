"""Configs of one group, and their bounds. Source: Kafka's GroupConfig (KIP-848, KIP-1263)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from muster.actors.config.types import Int, Long, problems_of

if TYPE_CHECKING:
    from muster.actors.group.config import OwnConfig


Broker = Mapping[str, Any]
"""The configuration of the cluster: values by the names of ``MusterConfig``'s fields."""


class GroupConfigs(BaseModel):
    """Configs of consumer groups. The default of Kafka's is the property of the same name after ``group.``.

    Their bounds are the properties ``group.consumer.{min,max}.*``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=lambda name: name.replace("_", "."))

    consumer_assignment_interval_ms: Int = Field(
        1_000, ge=0, description="Minimum time between two assignments of a consumer group, in ms."
    )
    consumer_heartbeat_interval_ms: Int = Field(
        5_000, ge=1, description="How often members of a consumer group should send a heartbeat, in ms."
    )
    consumer_session_timeout_ms: Int = Field(
        45_000, ge=1, description="Time without a heartbeat after which a member of a consumer group is removed, in ms."
    )
    group_byte_rate: Long | None = Field(
        None,
        ge=1,
        description="Bytes per second that a group may fetch from each gateway, all members together. Kafka has no "
        "such quota. none: no limit.",
    )


GROUP_BYTE_RATE = "group.byte.rate"
GROUP_CONFIGS: tuple[str, ...] = tuple(str(field.alias) for field in GroupConfigs.model_fields.values())
_OF_BROKER = tuple(name for name in GROUP_CONFIGS if name != GROUP_BYTE_RATE)
"""Group configs that are properties of the broker, too."""
_SESSION, _HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def group_config_errors(config: Mapping[str, str], broker: Broker) -> str | None:
    """Why these configs of a group are refused with INVALID_CONFIG; None if they are valid."""
    problems = [_unknown(name) for name in sorted(set(config) - set(GROUP_CONFIGS))]
    known = {name: value for name, value in config.items() if name in GROUP_CONFIGS}
    try:
        GroupConfigs.model_validate(known)
    except ValidationError as error:
        problems += problems_of(error)
    else:
        problems += out_of_bounds({name: int(known[name]) for name in _OF_BROKER if name in known}, broker)
    return "; ".join(problems) or None


def out_of_bounds(values: Mapping[str, int], broker: Broker, prefix: str = "") -> Iterator[str]:
    """Yield the errors of group configs, by name, under the bounds that the broker sets.

    ``prefix`` comes before the names in the texts.
    """
    for name, value in values.items():
        low, high = _bounds(name, broker)
        if not low <= value <= high:
            yield f"{prefix}{name}={value} must be between {low} and {high}"
    held = {name: values.get(name, _of_broker(name, broker)) for name in (_SESSION, _HEARTBEAT)}
    if held[_SESSION] <= held[_HEARTBEAT]:
        yield (f"{prefix}{_SESSION} must be greater than {prefix}{_HEARTBEAT} ({held[_SESSION]} <= {held[_HEARTBEAT]})")


def broker_problem(broker: Broker) -> str | None:
    """Return the error in the broker's own properties of the same names; None if they are valid."""
    return next(out_of_bounds({name: _of_broker(name, broker) for name in _OF_BROKER}, broker, "group."), None)


def own_configs(groups: Mapping[str, Mapping[str, str]], broker: Broker) -> dict[str, OwnConfig]:
    """Return the overrides of single groups. A value that is out of bounds by now counts as the nearest valid one."""
    from muster.actors.group.config import OwnConfig

    found: dict[str, OwnConfig] = {}
    for group, config in groups.items():
        values: dict[str, Any] = {}
        for name in _OF_BROKER:
            if config.get(name, "").strip().isdigit():
                low, high = _bounds(name, broker)
                values[name.replace(".", "_")] = min(max(int(config[name]), low), high)
        if values:
            found[group] = OwnConfig(**values)
    return found


def _of_broker(name: str, broker: Broker) -> int:
    value: int = broker[f"group_{name}".replace(".", "_")]
    return value


def _bounds(name: str, broker: Broker) -> tuple[int, int]:
    kind, rest = name.split(".", 1)
    return _of_broker(f"{kind}.min.{rest}", broker), _of_broker(f"{kind}.max.{rest}", broker)


def _unknown(name: str) -> str:
    if name.startswith(("share.", "streams.")):
        return f"{name} has no effect: Muster has no groups of that type"
    nearest = difflib.get_close_matches(name, GROUP_CONFIGS, n=1, cutoff=0.7)
    return f"Unknown group config name: {name}" + (f" (did you mean {nearest[0]}?)" if nearest else "")
