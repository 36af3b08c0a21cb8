"""How AlterConfigs and IncrementalAlterConfigs change a resource's configs, and when they are refused. No I/O.

Rules and codes are those of Kafka's ConfigAdminManager, ConfigurationControlManager and
ControllerConfigurationValidator (KIP-339), with one exception: unknown configs of brokers are
refused, while Kafka keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from kio.schema.errors import ErrorCode

from muster.actors.config.client_metrics import CLIENT_METRICS_CONFIGS, InvalidSubscription, check_client_metrics
from muster.actors.config.derived import COORDINATOR_TOPICS, topic_values
from muster.actors.config.dynamic import DYNAMIC, altered, in_force, is_dynamic_of_a_broker
from muster.actors.config.groups import GroupConfigs, group_config_errors
from muster.actors.config.kept import KEPT, kept_errors
from muster.actors.config.overrides import OF_A_LISTENER, Override
from muster.actors.config.properties import PASSWORDS, ConfigError, MusterConfig, property_names
from muster.actors.config.refused import unknown_property
from muster.actors.config.resources import ResourceType
from muster.actors.config.topics import TYPES, topic_config_errors
from muster.actors.config.types import ConfigType, text_of, type_of
from muster.placement.view import DynamicConfigs


class Operation(IntEnum):
    """Operations, as numbered by IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one config. ``value`` is not None, except for DELETE, which ignores it."""

    name: str
    operation: Operation
    value: str | None


@dataclass(frozen=True, slots=True)
class Alteration:
    """The changes of one resource."""

    type: ResourceType
    name: str
    """"" for the default of all brokers."""
    changes: tuple[Change, ...]
    replace: bool = False
    """Whether configs that are not named are removed (AlterConfigs)."""


class InvalidAlteration(ValueError):
    """The alteration is refused as a whole. ``code`` is Kafka's."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Topic:
    types = TYPES

    def __init__(self, name: str, config: MusterConfig, configs: DynamicConfigs) -> None:
        self._name = name
        self._fixed = COORDINATOR_TOPICS.get(name, {})
        self._config = in_force(config, configs)

    def default(self, name: str) -> str | None:
        values = topic_values(self._config, self._fixed)
        return text_of(values[name.replace(".", "_")])

    def check(self, wanted: Mapping[str, str], changed: Mapping[str, str]) -> None:
        if (problem := topic_config_errors(wanted)) is not None:
            raise InvalidAlteration(ErrorCode.invalid_config, problem)
        for name, value in changed.items():
            if value != self._fixed.get(name, value):
                message = f"{name} of {self._name} can only be {self._fixed[name]}"
                raise InvalidAlteration(ErrorCode.invalid_config, message)


class _Broker:
    types: Mapping[str, ConfigType] = {
        **{str(field.alias): type_of(field) for field in MusterConfig.model_fields.values()},
        **KEPT,
    }

    def __init__(self, name: str, config: MusterConfig, configs: DynamicConfigs) -> None:
        self._is_one = bool(name)
        self._started_with = config
        self._above = configs.cluster if name else {}
        self._config = in_force(config, configs, int(name) if name else None)

    def default(self, name: str) -> str | None:
        return text_of(getattr(self._config, name.replace(".", "_")))

    def check(self, wanted: Mapping[str, str], changed: Mapping[str, str]) -> None:
        if wrong := kept_errors(changed):
            _refuse("; ".join(wrong))
        changed = {name: value for name, value in changed.items() if name not in KEPT}
        if unknown := sorted(name for name in changed if not self._is_known(name)):
            _refuse("; ".join(unknown_property(name, property_names()) for name in unknown))
        if secret := sorted(name for name in changed if _is_password(name)):
            _refuse(
                f"Cannot update these configs dynamically: [{', '.join(secret)}]. ZooKeeper would keep passwords and "
                "keys as they are; set the location of a new file, or replace the file"
            )
        if static := sorted(name for name in changed if name not in DYNAMIC and not is_dynamic_of_a_broker(name)):
            _refuse(f"Cannot update these configs dynamically: [{', '.join(static)}]")
        if self._is_one and (shared := sorted(name for name in changed if not is_dynamic_of_a_broker(name))):
            _refuse(
                "Cannot update these configs of one broker, only cluster-wide (entity-default), since logs and groups "
                f"are no broker's own: [{', '.join(shared)}]"
            )
        try:
            altered(
                self._started_with,
                {
                    name: value
                    for name, value in {**self._above, **wanted}.items()
                    if name in DYNAMIC or is_dynamic_of_a_broker(name)
                },
            )
        except ConfigError as error:
            _refuse(str(error))

    def _is_known(self, name: str) -> bool:
        override = Override.parse(name)
        return name in self.types if override is None else override.key in OF_A_LISTENER


class _Group:
    types: Mapping[str, ConfigType] = {str(field.alias): type_of(field) for field in GroupConfigs.model_fields.values()}

    def __init__(self, _: str, config: MusterConfig, configs: DynamicConfigs) -> None:
        self._broker = in_force(config, configs)

    def default(self, name: str) -> str | None:
        return None

    def check(self, wanted: Mapping[str, str], _: Mapping[str, str]) -> None:
        if (problem := group_config_errors(wanted, dict(self._broker))) is not None:
            raise InvalidAlteration(ErrorCode.invalid_config, problem)


class _ClientMetrics:
    types: Mapping[str, ConfigType] = {name: each.type for name, each in CLIENT_METRICS_CONFIGS.items()}

    def __init__(self, *_: object) -> None:
        """Ignore the arguments: a subscription depends on nothing else."""

    def default(self, name: str) -> str | None:
        return CLIENT_METRICS_CONFIGS[name].default

    def check(self, wanted: Mapping[str, str], _: Mapping[str, str]) -> None:
        try:
            check_client_metrics(wanted)
        except InvalidSubscription as error:
            raise InvalidAlteration(error.code, str(error)) from error


def _is_password(name: str) -> bool:
    override = Override.parse(name)
    return (name if override is None else override.key) in PASSWORDS


def _refuse(message: str) -> None:
    raise InvalidAlteration(ErrorCode.invalid_request, message)


_Kind = _Topic | _Broker | _Group | _ClientMetrics
_KINDS: Mapping[ResourceType, type[_Kind]] = {
    ResourceType.TOPIC: _Topic,
    ResourceType.BROKER: _Broker,
    ResourceType.GROUP: _Group,
    ResourceType.CLIENT_METRICS: _ClientMetrics,
}


def configs_after(
    alteration: Alteration, current: Mapping[str, str], config: MusterConfig, configs: DynamicConfigs
) -> dict[str, str]:
    """All configs of the resource after the alteration. Raises InvalidAlteration.

    ``current``: all its configs before; ``config``: what the cluster was started with; ``configs``: what was altered
    since.
    """
    kind = _KINDS[alteration.type](alteration.name, config, configs)
    wanted = {} if alteration.replace else dict(current)
    for change in alteration.changes:
        match change.operation:
            case Operation.SET:
                wanted[change.name] = (change.value or "").strip()  # as Kafka's ConfigDef parses it
            case Operation.DELETE:
                wanted.pop(change.name, None)
            case operation:
                wanted[change.name] = _list_with(change, operation, wanted, kind)
    kind.check(wanted, {name: value for name, value in wanted.items() if current.get(name) != value})
    return wanted


def _list_with(change: Change, operation: Operation, current: Mapping[str, str], kind: _Kind) -> str:
    if kind.types.get(change.name) is not ConfigType.LIST:
        message = f"Can't {operation.name} to key {change.name} because its type is not LIST."
        raise InvalidAlteration(ErrorCode.invalid_config, message)
    before = current.get(change.name, kind.default(change.name)) or ""
    parts = [part for part in before.split(",") if part]
    for part in (change.value or "").split(","):
        if operation is Operation.SUBTRACT:
            parts = [other for other in parts if other != part]
        elif part not in parts:
            parts.append(part)
    return ",".join(parts)
