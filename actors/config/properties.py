"""Properties for operators, with Kafka's names, typed, and checked before anything starts.

A property file, ``--set`` and flags become one mapping of names to text; :meth:`MusterConfig.from_properties`
turns it into a frozen value or a :class:`ConfigError` that names every offending property. A Kafka property
that would do nothing here is refused rather than ignored. Sources: Kafka's broker configuration reference for
names, defaults and bounds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pydantic import ConfigDict, Field, PrivateAttr, SecretStr, ValidationError, field_validator, model_validator

from muster.actors.config.coordinator_properties import CoordinatorProperties
from muster.actors.config.groups import broker_problem
from muster.actors.config.listeners import (
    DEFAULT_PORT,
    DEFAULT_PROTOCOLS,
    PLAINTEXT,
    SASL_PLAINTEXT,
    SASL_SSL,
    Listener,
    check_placeholders,
    check_ports,
    default_listeners,
    parse_advertised,
    parse_listeners,
    parse_protocols,
    read_listeners,
)
from muster.actors.config.log_properties import LogProperties
from muster.actors.config.overrides import METRICS, PREFIX, key_of, read_overrides
from muster.actors.config.parts.console_properties import DEFAULT_CONSOLE_PORT, ConsoleProperties
from muster.actors.config.parts.metrics_properties import DEFAULT_METRICS_PORT, MetricsProperties
from muster.actors.config.parts.quota_properties import QuotaProperties
from muster.actors.config.refused import unknown_property
from muster.actors.config.security_properties import SecurityProperties
from muster.actors.config.tls.properties import SslProperties
from muster.actors.config.tls.settings import TlsSettings, tls_settings
from muster.actors.config.types import (
    Bool,
    ConfigType,
    Int,
    Long,
    Mechanisms,
    Text,
    problems_of,
    type_of,
)
from muster.actors.config.zookeeper_properties import ZooKeeperProperties
from muster.actors.object_storage.location import Location, NotALocation, is_uri

_MAX_INT = 2**31 - 1


class ConfigError(ValueError):
    """Properties that are unknown or have a bad value. The text is one line and names each of them."""


def _property_name(field_name: str) -> str:
    return field_name.replace("_", ".")


class MusterConfig(
    ConsoleProperties,
    CoordinatorProperties,
    LogProperties,
    MetricsProperties,
    QuotaProperties,
    SecurityProperties,
    SslProperties,
    ZooKeeperProperties,
):
    """Every property with its value. Kafka's names have dots where the fields have underscores."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=_property_name,
        hide_input_in_errors=True,
        defer_build=True,  # until something is validated: actors get one that was, and most commands have none
    )

    # connections
    listeners: Text = Field(
        f"PLAINTEXT://:{DEFAULT_PORT}",
        description="NAME://[HOST]:PORT with commas; further gateways on a host use the following ports, 0 picks free "
        "ones. Without HOST: loopback if Muster started Ray, else all interfaces. The first listener is the one that "
        "`muster up` prints and that Muster's own commands use; the HTTP port is on its HOST. Default with "
        "sasl.enabled.mechanisms: SASL_PLAINTEXT://:9092.",
    )
    listener_security_protocol_map: Text = Field(
        DEFAULT_PROTOCOLS,
        description="NAME:PROTOCOL with commas: the protocol of each listener, PLAINTEXT, SSL, "
        "SASL_PLAINTEXT or SASL_SSL.",
    )
    sasl_enabled_mechanisms: Mechanisms = Field(
        "",
        description="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or a list of them with commas: how clients log in"
        " at listeners with the protocol SASL_PLAINTEXT or SASL_SSL.",
    )
    sasl_credentials_file: Text | None = Field(
        None,
        description="Property file of users, as written by muster user add --file; every node must be able to read"
        " it. Changes apply to the next login. Users in ZooKeeper, which muster user and Kafka's tools alter, need no"
        " file, and take precedence.",
    )
    proxy_protocol_enable: Bool = Field(
        False,
        description="Whether every connection begins with a PROXY protocol header, version 2, in which a load "
        "balancer gives the client's address. Only balancers may reach such a listener: the header "
        "is trusted. For one listener: listener.name.NAME.proxy.protocol.enable, NAME in lower case.",
    )
    proxy_protocol_trusted_hosts: Text | None = Field(
        None,
        description="Addresses and networks of the balancers (10.0.0.5, 10.1.0.0/16), with commas: a connection from "
        "elsewhere to a listener with proxy.protocol.enable is closed. none: anyone who reaches it is trusted."
        " For one listener: listener.name.NAME.proxy.protocol.trusted.hosts, NAME in lower case.",
    )
    advertised_listeners: Text | None = Field(
        None,
        description="NAME://HOST[:PORT] with commas, where clients of each listener connect to. {id} is replaced by "
        "the gateway's id, {host} by the address that it has without this property, {label:NAME} by a label of its Ray "
        "node. PORT may be 9000+{id} or {label:NAME}; if it is a number and HOST has no placeholder, it is the first "
        "gateway's and the others count up.",
    )
    broker_rack: Text | None = Field(
        None,
        description="Rack of a gateway, which consumers with that client.rack prefer; may have the placeholders of "
        "advertised.listeners: {label:rack} is the label that ray start --labels rack=... gives the node. none: the "
        "node's label ray.io/availability-zone, if it has one.",
    )
    socket_request_max_bytes: Int = Field(104_857_600, ge=1, description="Maximum size of a request, in bytes.")
    queued_max_response_bytes: Long = Field(
        67_108_864,
        ge=1 << 20,
        description="Maximum memory of a gateway's responses that clients have not taken, in bytes; the default is a "
        "little more than one response of fetch.max.bytes. Beyond it, records in files of the gateway's node are "
        "read again when the client takes them; connections with other responses are closed, first the one whose "
        "client has taken nothing for longest.",
    )
    connections_max_idle_ms: Long = Field(
        600_000, ge=-1, description="Time after which an idle connection is closed, in ms."
    )
    connection_invalid_request_delay_ms: Int = Field(
        1_000,
        ge=0,
        description="How long a connection stays open, unread, after bytes that are no request the gateway serves, in "
        "ms: clients that connect anew for each then take little time from others. Each delay is random, from half "
        "to one and a half times this, so that they do not all come back at once. 0: the connection is closed at "
        "once, as by Kafka.",
    )
    max_connections: Int = Field(
        _MAX_INT,
        ge=1,
        description="Maximum number of connections to a gateway. For one listener: listener.name.NAME.max.connections, "
        "NAME in lower case.",
    )
    fetch_max_bytes: Int = Field(57_671_680, ge=1024, description="Maximum size of the response to a Fetch, in bytes.")
    max_incremental_fetch_session_cache_slots: Int = Field(
        1000, ge=0, description="Maximum number of fetch sessions of a gateway (KIP-227); 0: clients get none."
    )
    telemetry_max_bytes: Int = Field(
        1_048_576, ge=1, description="Maximum size of the metrics that a client pushes at a time, in bytes (KIP-714)."
    )
    max_request_partition_size_limit: Int = Field(
        2000, ge=1, description="Maximum number of partitions in a response to DescribeTopicPartitions (KIP-966)."
    )
    min_incremental_fetch_session_eviction_ms: Long = Field(
        120_000,
        ge=0,
        description="Time without use after which a fetch session gives way to any other, in ms. Before, a session "
        "that has lived so long gives way to one of more partitions.",
    )

    # Muster
    storage_path: Text = Field(
        "./muster-data",
        description="Directory for all data, shared by all nodes; file:///PATH is the same. Or s3://BUCKET/PREFIX "
        "(also gs://, az://): a place in object storage. Its endpoint and its credentials are in the environment of "
        "all nodes.",
    )
    storage_object_cache_path: Text = Field(
        "./muster-cache",
        description="With storage.path in object storage: directory of each node for copies of the logs that it "
        "serves, for what is not uploaded yet, and for logs of processes. It may be lost with the node.",
    )
    storage_object_flush_interval_ms: Long = Field(
        50,
        ge=0,
        le=10_000,
        description="With storage.path in object storage: the least time between two writes of one log actor or "
        "coordinator that is busy, in ms. A longer one costs less, and each write waits longer.",
    )
    gateway_count: Int | None = Field(
        None, ge=1, description="Number of gateways; none: one, or one per node of a Ray that Muster did not start."
    )
    log_actors: Int = Field(2, ge=1, description="Number of actors among which topic partitions are distributed.")
    actor_port_range: Text | None = Field(
        None,
        description="FIRST-LAST: ports on which actors listen for gateways on other nodes, for use with a "
        "firewall. none: any free port.",
    )
    reconciler_interval_ms: Long = Field(
        10_000, ge=100, description="How often the client-to-group mapping is compared and repaired, in ms."
    )
    reconciler_max_writes_per_second: Int = Field(
        50_000, ge=1, description="Maximum number of mapping nodes that the reconciler writes per second."
    )
    reconciler_dry_run: Bool = Field(
        False,
        description="Whether the reconciler only compares and reports, and writes nothing except on muster "
        "mapping repair.",
    )
    attribution_pending_ms: Long = Field(
        60_000, ge=0, description="How long a fetch without a known group waits for attribution, in ms."
    )
    audit_interval_ms: Long = Field(
        30_000,
        ge=0,
        description="How often the bytes implied by commits are compared with the attributed bytes, in ms; 0: never.",
    )
    attribution_simple_ttl_ms: Long = Field(
        600_000,
        ge=1,
        description="How long a client that never joins is attributed to the group it commits for, in ms.",
    )
    rebalance_stuck_ms: Long = Field(
        30_000,
        ge=1,
        description="How long a phase of a rebalance may last before the coordinator's log names the members that it "
        "waits for, in ms; half the group's rebalance timeout if that is shorter.",
    )
    rebalance_events_topic: Text | None = Field(
        None,
        description="Topic to which each rebalance that has ended is written as JSON, at least once, with the group as "
        "the key. It is not created. none: off.",
    )
    heartbeat_lease_enable: Bool = Field(
        True,
        description="Whether gateways answer the heartbeats of members of Stable groups themselves, and report them to "
        "the coordinator. A session may then end up to one second late while a gateway does not respond.",
    )
    offsets_standby_enable: Bool = Field(
        True,
        description="Whether a process on each node is ready to take over from coordinators, log actors and gateways "
        "that die.",
    )
    actor_liveness_timeout_ms: Long = Field(
        10_000, ge=0, description="How long an actor may fail to respond before it is considered dead, in ms; 0: never."
    )
    node_settle_ms: Long = Field(
        10_000, ge=0, description="How long a node must have been in the Ray cluster before it gets actors, in ms."
    )
    http_changes_enable: Bool = Field(
        False,
        description="Whether the HTTP port takes changes, such as a reset of offsets: from those who may make them by "
        "Kafka's requests, and from anyone who reaches the port where nothing authenticates.",
    )
    fault_injection_enable: Bool = Field(
        False,
        description="Whether faults can be injected (docs/faults.md). For test clusters only: anyone who may ALTER the "
        "cluster, or who reaches a gateway's HTTP port where nothing authenticates, can then break the cluster.",
    )

    _of_one_listener: Mapping[str, Any] = PrivateAttr(default_factory=dict)
    """The properties that begin with ``listener.name.``."""
    _own: Mapping[str, Mapping[str, Any]] = PrivateAttr(default_factory=dict)
    """Typed properties of listeners: see :func:`read_overrides`."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> MusterConfig:
        """Return the configuration of these properties. Raises ConfigError, which names every invalid one."""
        known = property_names()
        own = {name: value for name, value in properties.items() if name.startswith(PREFIX)}
        problems = [unknown_property(name, known) for name in sorted(set(properties) - known - set(own))]
        values = {"listeners": default_listeners(properties)} if properties.get("sasl.enabled.mechanisms") else {}
        try:
            config = cls.model_validate(values | {name: properties[name] for name in properties if name in known})
            config._of_one_listener = {name: _hidden(name, value) for name, value in own.items()}
            config._own = read_overrides(own, config._names, cls._typed)
            config._check_listeners()
        except ValidationError as error:
            problems += problems_of(error, PASSWORDS)
        except ValueError as error:
            problems.append(str(error))
        if problems:
            raise ConfigError("; ".join(problems))
        return config

    @property
    def properties(self) -> dict[str, Any]:
        """The properties that were set; :meth:`from_properties` makes this configuration of them again."""
        return {**self.model_dump(by_alias=True, exclude_unset=True), **self._of_one_listener}

    @classmethod
    def _typed(cls, key: str, text: Any) -> Any:
        """Return the value of a property.

        Raises ValueError with its name, its text unless it is a password, and the reason.
        """
        try:
            return getattr(cls.model_validate({key: text}), key.replace(".", "_"))
        except ValidationError as error:
            raise ValueError("; ".join(problems_of(error, PASSWORDS))) from None

    @property
    def overrides(self) -> Mapping[str, Any]:
        """The properties of one listener that were set, by name: text, or a SecretStr."""
        return self._of_one_listener

    def of_listener(self, listener: str, key: str, mechanism: str | None = None) -> Any:
        """Return the value of a property for a listener, or for a SASL mechanism of it: the most specific one."""
        own = self._own.get(listener, {})
        for name in (key_of(key, mechanism), key):
            if name in own:
                return own[name]
        return getattr(self, key.replace(".", "_"))

    @property
    def _names(self) -> list[str]:
        names = [name for name, _, _ in parse_listeners(self.listeners)]
        return [*names, METRICS] if self.metrics_security_protocol != PLAINTEXT else names

    @field_validator("listeners")
    @classmethod
    def _names_and_places(cls, text: str) -> str:
        parse_listeners(text)
        return text

    @field_validator("listener_security_protocol_map")
    @classmethod
    def _protocols(cls, text: str) -> str:
        parse_protocols(text)
        return text

    @field_validator("advertised_listeners")
    @classmethod
    def _hosts_and_ports(cls, text: str | None) -> str | None:
        if text is not None:
            parse_advertised(text)
        return text

    @field_validator("broker_rack")
    @classmethod
    def _placeholders(cls, text: str | None) -> str | None:
        if text is not None:
            check_placeholders(text)
        return text

    @field_validator("actor_port_range")
    @classmethod
    def _range(cls, text: str | None) -> str | None:
        if text is not None:
            _port_range(text)
        return text

    @field_validator("rebalance_events_topic")
    @classmethod
    def _is_topic(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name):
            raise ValueError("is no name of a topic")
        return name

    @field_validator("storage_path")
    @classmethod
    def _is_place(cls, path: str) -> str:
        if is_uri(path):
            if path.startswith("file:///"):
                return unquote(path.removeprefix("file://"))
            try:
                return str(Location.parse(path))
            except NotALocation as error:
                raise ValueError(str(error)) from error
        return path

    @property
    def bucket(self) -> str | None:
        """URI of the place in object storage; None if everything is in a directory."""
        return self.storage_path if is_uri(self.storage_path) else None

    @property
    def directory(self) -> Path:
        """The directory that all nodes share; on a bucket, that of each node."""
        return Path(self.storage_object_cache_path if self.bucket else self.storage_path).absolute()

    @field_validator("sasl_credentials_file")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        return None if path is None else str(Path(path).expanduser().absolute())

    def _check_listeners(self) -> None:
        if 0 <= self.connections_max_idle_ms <= self.connection_failed_authentication_delay_ms:
            raise ValueError(
                "connection.failed.authentication.delay.ms must be less than connections.max.idle.ms "
                f"({self.connection_failed_authentication_delay_ms} >= {self.connections_max_idle_ms})"
            )
        found = self.all_listeners
        needs_login = any(listener.needs_login for listener in found)
        logins = [self.of_listener(each.name, "sasl.enabled.mechanisms") for each in found if each.needs_login]
        if not all(logins):
            raise ValueError(f"listeners={self.listeners} needs sasl.enabled.mechanisms")
        self.check_oauth([name for each in logins for name in each.split(",")])
        if self.sasl_mechanisms and not needs_login:
            raise ValueError(
                f"sasl.enabled.mechanisms needs a listener with the protocol {SASL_PLAINTEXT} or {SASL_SSL}, "
                f"for example listeners={SASL_PLAINTEXT}://:{DEFAULT_PORT}; listeners={self.listeners} has none"
            )
        check_ports(found, self.gateway_count or 1)
        if METRICS in self._names[:-1]:
            raise ValueError(
                "a listener cannot be named METRICS with metrics.security.protocol=SSL: the HTTP port has that name"
            )
        for listener in found:
            self.tls(listener)
        self.http_tls  # noqa: B018 - raises if it cannot be
        presents = any((tls := self.tls(each)) is not None and tls.client_auth != "none" for each in found)
        if (problem := self.authorizer_problem(authenticates=needs_login or presents)) is not None:
            raise ValueError(problem)

    @model_validator(mode="after")
    def _default_replication_factor_is_allowed(self) -> MusterConfig:
        if self.default_replication_factor > self.max_replication_factor:
            raise ValueError(
                "default.replication.factor must not be greater than max.replication.factor "
                f"({self.default_replication_factor} > {self.max_replication_factor})"
            )
        return self

    @model_validator(mode="after")
    def _session_timeouts_admit_someone(self) -> MusterConfig:
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ValueError(
                "group.min.session.timeout.ms must not be greater than group.max.session.timeout.ms "
                f"({self.group_min_session_timeout_ms} > {self.group_max_session_timeout_ms})"
            )
        return self

    @model_validator(mode="after")
    def _consumer_groups_are_in_bounds(self) -> MusterConfig:
        if (problem := broker_problem(dict(self))) is not None:
            raise ValueError(problem)
        return self

    @property
    def retention_ms(self) -> int:
        """How long records are kept, in ms, after Kafka's precedence of .ms, .minutes and .hours; -1: for ever."""
        if self.log_retention_ms is not None:
            return self.log_retention_ms
        if self.log_retention_minutes is not None:
            return self.log_retention_minutes * 60_000 if self.log_retention_minutes >= 0 else -1
        return self.log_retention_hours * 3_600_000 if self.log_retention_hours >= 0 else -1

    @property
    def roll_ms(self) -> int:
        """Maximum age of a segment before the next one begins, in ms; .ms overrides .hours."""
        return self.log_roll_ms if self.log_roll_ms is not None else self.log_roll_hours * 3_600_000

    @property
    def roll_jitter_ms(self) -> int:
        """By how much earlier than :attr:`roll_ms` a segment may be closed; .ms overrides .hours."""
        return (
            self.log_roll_jitter_ms if self.log_roll_jitter_ms is not None else self.log_roll_jitter_hours * 3_600_000
        )

    @property
    def sasl_mechanisms(self) -> tuple[str, ...]:
        """Mechanisms in ``sasl.enabled.mechanisms``; none: clients need not log in."""
        return tuple(filter(None, self.sasl_enabled_mechanisms.split(",")))

    @property
    def all_listeners(self) -> tuple[Listener, ...]:
        """Listeners in ``listeners``, in their order."""
        return read_listeners(
            self.listeners,
            self.listener_security_protocol_map,
            self.advertised_listeners,
            proxy_protocol=self.proxy_protocol_enable,
            balancers=self.proxy_protocol_trusted_hosts,
            own=self._own,
        )

    def tls(self, listener: Listener) -> TlsSettings | None:
        """How a listener uses TLS; None if it does not.

        Raises ValueError naming the property that is missing or too many.
        """
        if not listener.uses_tls:
            return None
        own = self._own.get(listener.name, {})
        wanted = "none" if listener.needs_login and "ssl.client.auth" not in own else None
        return tls_settings(listener.name, partial(self.of_listener, listener.name), client_auth=wanted)

    @property
    def http_tls(self) -> TlsSettings | None:
        """How the HTTP port uses TLS; None if it does not. Raises ValueError as :meth:`tls`."""
        if self.metrics_security_protocol == PLAINTEXT:
            return None
        return tls_settings(METRICS, partial(self.of_listener, METRICS))

    @property
    def first_metrics_port(self) -> int:
        """The port of the first gateway, or of all where each has its own node; 0: free ones.

        Fixed by default, so that the addresses in Prometheus' configuration remain valid after a restart.
        """
        if self.metrics_port is not None:
            return self.metrics_port
        return DEFAULT_METRICS_PORT if self.all_listeners[0].port else 0

    @property
    def console_ports(self) -> tuple[int, ...]:
        """Ports of the console, the preferred one first; 0: a free one."""
        if self.console_port is not None:
            return (self.console_port,)
        return (DEFAULT_CONSOLE_PORT, 0) if self.all_listeners[0].port else (0,)

    @property
    def actor_ports(self) -> range:
        """``actor.port.range``; 0 alone where any port will do."""
        return range(1) if self.actor_port_range is None else _port_range(self.actor_port_range)


def _port_range(text: str) -> range:
    found = re.fullmatch(r"(\d{1,5})-(\d{1,5})", text)
    if not found or not 0 < int(found[1]) <= int(found[2]) <= 65535:
        raise ValueError("is not FIRST-LAST, two ports")
    return range(int(found[1]), int(found[2]) + 1)


def property_names() -> set[str]:
    """Every property that there is."""
    return {str(field.alias) for field in MusterConfig.model_fields.values()}


def _hidden(name: str, value: Any) -> Any:
    """Passwords do not stay text, which could be shown."""
    is_password = any(name.endswith(f".{key}") for key in PASSWORDS) and isinstance(value, str)
    return SecretStr(value) if is_password else value


PASSWORDS = frozenset(
    str(field.alias) for field in MusterConfig.model_fields.values() if type_of(field) is ConfigType.PASSWORD
)
"""The properties whose values are never shown."""
