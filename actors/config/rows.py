"""Every config as DescribeConfigs shows it: its value, the source of the value, and its synonyms (KIP-226)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo

from muster.actors.config.client_metrics import CLIENT_METRICS_CONFIGS
from muster.actors.config.derived import COORDINATOR_TOPICS, coordinator_topic_configs, topic_values
from muster.actors.config.dynamic import DYNAMIC, Started, in_force
from muster.actors.config.groups import GROUP_BYTE_RATE, GroupConfigs
from muster.actors.config.kept import KeptProperties
from muster.actors.config.overrides import Override, is_dynamic
from muster.actors.config.properties import PASSWORDS, MusterConfig
from muster.actors.config.topics import BY_UNIT, TopicConfigs, synonym_of, valid_topic_configs
from muster.actors.config.types import ConfigType, text_of, type_of
from muster.placement.view import DynamicConfigs

_FIELDS = {**MusterConfig.model_fields, **KeptProperties.model_fields}
_NOTHING: Mapping[str, str] = {}
_NONE_ALTERED = DynamicConfigs()


class ConfigSource(IntEnum):
    """The source of a value, as numbered by DescribeConfigs v1+."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class Synonym(NamedTuple):
    name: str
    value: str | None
    """None: a password."""
    source: ConfigSource


class ConfigRow(NamedTuple):
    """One config of a DescribeConfigs response."""

    name: str
    value: str | None
    source: ConfigSource
    synonyms: tuple[Synonym, ...]
    """Everything that has a value for it; the one in use comes first."""
    type: ConfigType
    documentation: str
    read_only: bool

    @property
    def is_sensitive(self) -> bool:
        """Whether its value is never shown."""
        return self.type is ConfigType.PASSWORD


def describe_broker(
    config: MusterConfig, configs: DynamicConfigs = _NONE_ALTERED, broker_id: int | None = None
) -> list[ConfigRow]:
    """Every property of a broker; without an id, of no broker in particular."""
    layers = _Layers(config, configs, broker_id)
    rows = [layers.row(name) for name in sorted(type(config).model_fields)] + layers.kept_rows()
    return rows + [layers.row_of_a_listener(name) for name in sorted(layers.in_force.overrides)]


def describe_default_broker(config: MusterConfig, configs: DynamicConfigs) -> list[ConfigRow]:
    """Return the properties that were set for the whole cluster."""
    layers = _Layers(config, configs, None)
    rows = [layers.row(name) for name in sorted(type(config).model_fields) if _alias(name) in configs.cluster]
    rows += [row for row in layers.kept_rows() if row.name in configs.cluster]
    rows += [layers.row_of_a_listener(name) for name in sorted(layers.in_force.overrides) if name in configs.cluster]
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return [row._replace(synonyms=tuple(each for each in row.synonyms if each.source is source)) for row in rows]


def describe_topic(
    config: MusterConfig, topic_overrides: Mapping[str, str], configs: DynamicConfigs = _NONE_ALTERED
) -> list[ConfigRow]:
    """Every config of a topic: the value set on the topic if it is valid, else the broker's."""
    rows = _topic_rows(Started(config), tuple(configs.cluster.items()), tuple(topic_overrides.items()))
    return list(rows)


@lru_cache(maxsize=256)  # a client may describe thousands of topics at once, and most are alike
def _topic_rows(
    started: Started, cluster: tuple[tuple[str, str], ...], topic_overrides: tuple[tuple[str, str], ...]
) -> tuple[ConfigRow, ...]:
    layers = _Layers(started.config, DynamicConfigs(cluster=dict(cluster)), None)
    own = valid_topic_configs(dict(topic_overrides))
    values = topic_values(layers.in_force, own)
    return tuple(_topic_row(layers, name, values[name], own) for name in sorted(TopicConfigs.model_fields))


def describe_coordinator_topic(
    topic: str,
    config: MusterConfig,
    topic_overrides: Mapping[str, str] = _NOTHING,
    configs: DynamicConfigs = _NONE_ALTERED,
) -> list[ConfigRow]:
    """Every config of ``__consumer_offsets`` or ``__transaction_state``."""
    own = coordinator_topic_configs(topic, in_force(config, configs), topic_overrides)
    rows = describe_topic(config, own, configs)
    return [row._replace(read_only=row.name in COORDINATOR_TOPICS[topic]) for row in rows]


def describe_group(overrides: Mapping[str, str] = _NOTHING, config: MusterConfig | None = None) -> list[ConfigRow]:
    """Every config of a group with these ``overrides``; the others are those of the cluster's ``config`` in force."""
    fields = sorted(GroupConfigs.model_fields.items())
    return [_group_row(name, field, overrides, config) for name, field in fields]


def describe_client_metrics(overrides: Mapping[str, str] = _NOTHING) -> list[ConfigRow]:
    """Every config of a subscription to client metrics with these ``overrides`` (KIP-714)."""
    dynamic, default = ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG, ConfigSource.DEFAULT_CONFIG
    rows = []
    for name, each in CLIENT_METRICS_CONFIGS.items():
        value, source = (overrides[name], dynamic) if name in overrides else (each.default, default)
        rows.append(ConfigRow(name, value, source, (), each.type, each.documentation, False))
    return rows


class _Layers:
    """The layers of a broker's configuration, in order of precedence: broker, cluster, start, defaults."""

    def __init__(self, config: MusterConfig, configs: DynamicConfigs, broker_id: int | None) -> None:
        self.in_force = in_force(config, configs, broker_id)
        started_with = {_alias(name): text_of(getattr(config, name)) for name in config.model_fields_set}
        started_with |= {name: text_of(value) for name, value in config.overrides.items()}
        defaults = {_alias(name): text_of(field.default) for name, field in _FIELDS.items()}
        of_broker = configs.brokers.get(broker_id, {}) if broker_id is not None else {}
        self._layers: tuple[tuple[ConfigSource, Mapping[str, str | None]], ...] = (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, of_broker),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, configs.cluster),
            (ConfigSource.STATIC_BROKER_CONFIG, started_with),
            (ConfigSource.DEFAULT_CONFIG, defaults),
        )

    def synonyms(self, name: str) -> tuple[Synonym, ...]:
        """Everything that has a value for the field of that name, in Kafka's order: by layer, then by unit."""
        return self._synonyms([_alias(each) for each in BY_UNIT.get(name, (name,))])

    def _synonyms(self, aliases: Sequence[str]) -> tuple[Synonym, ...]:
        found = (
            Synonym(alias, layer[alias], source)
            for source, layer in self._layers
            for alias in aliases
            if alias in layer
        )
        return tuple(each for each in found if each.value is not None or _is_set_password(each))

    def row(self, name: str) -> ConfigRow:
        field, alias = MusterConfig.model_fields[name], _alias(name)
        value = text_of(getattr(self.in_force, name))
        return _row(alias, value, self.synonyms(name), field, read_only=alias not in DYNAMIC)

    def kept_rows(self) -> list[ConfigRow]:
        """Properties without an effect; one without a default is shown if it is set."""
        found = ((field, self._synonyms([_alias(name)])) for name, field in sorted(KeptProperties.model_fields.items()))
        return [
            _row(str(field.alias), synonyms[0].value, synonyms, field, read_only=False)._replace(
                documentation=f"No effect: {field.description}."
            )
            for field, synonyms in found
            if synonyms
        ]

    def row_of_a_listener(self, name: str) -> ConfigRow:
        """Return a property of one listener; the value that applies without it is a synonym, too."""
        override = Override.parse(name)
        assert override is not None
        field = MusterConfig.model_fields[override.key.replace(".", "_")]
        synonyms = (*self._synonyms([name]), *self._synonyms([override.key]))
        return _row(name, synonyms[0].value, synonyms, field, read_only=not is_dynamic(name))


def _is_set_password(synonym: Synonym) -> bool:
    """Passwords have no value here, whether they are set or not; by default they are not."""
    return synonym.source is not ConfigSource.DEFAULT_CONFIG and any(
        synonym.name == name or synonym.name.endswith(f".{name}") for name in PASSWORDS
    )


def _topic_row(layers: _Layers, name: str, value: Any, overrides: Mapping[str, str]) -> ConfigRow:
    field = TopicConfigs.model_fields[name]
    alias, synonym = str(field.alias), synonym_of(field)
    synonyms = layers.synonyms(synonym) if synonym else ()
    if alias in overrides:
        synonyms = (Synonym(alias, overrides[alias], ConfigSource.DYNAMIC_TOPIC_CONFIG), *synonyms)
    elif synonym in KeptProperties.model_fields:
        value = synonyms[0].value
    return _row(alias, text_of(value), synonyms, field, read_only=False)


def _group_row(name: str, field: FieldInfo, overrides: Mapping[str, str], config: MusterConfig | None) -> ConfigRow:
    alias, synonyms = str(field.alias), _of_cluster(name, field, config)
    if alias in overrides:
        synonyms = (Synonym(alias, overrides[alias], ConfigSource.DYNAMIC_GROUP_CONFIG), *synonyms)
    return _row(alias, synonyms[0].value if synonyms else None, synonyms, field, read_only=False)


def _of_cluster(name: str, field: FieldInfo, config: MusterConfig | None) -> tuple[Synonym, ...]:
    if field.alias == GROUP_BYTE_RATE:
        return ()
    value = str(text_of(field.default if config is None else getattr(config, f"group_{name}")))
    return (Synonym(f"group.{field.alias}", value, ConfigSource.DEFAULT_CONFIG),)


def _row(
    alias: str, value: str | None, synonyms: tuple[Synonym, ...], field: FieldInfo, *, read_only: bool
) -> ConfigRow:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return ConfigRow(alias, value, source, synonyms, type_of(field), field.description or "", read_only)


def _alias(name: str) -> str:
    return str(_FIELDS[name].alias)
