"""The configuration of a group coordinator: Kafka's broker properties, with underscores for dots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MS_PER_MINUTE = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnConfig:
    """Overrides of one group. None: the broker's value."""

    consumer_session_timeout_ms: int | None = None
    consumer_heartbeat_interval_ms: int | None = None
    consumer_assignment_interval_ms: int | None = None


_NOTHING_SET = OwnConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Kafka's properties for groups and their offsets, with Kafka's defaults."""

    group_min_session_timeout_ms: int = 6_000
    """Lowest session timeout that a JoinGroup may request (inclusive)."""
    group_max_session_timeout_ms: int = 1_800_000
    """Highest session timeout that a JoinGroup may request (inclusive)."""
    group_initial_rebalance_delay_ms: int = 3_000
    """How long the first rebalance of an Empty group waits for more members."""
    group_max_size: int = 2_147_483_647
    """Maximum number of members of a group."""
    group_coordinator_rebalance_protocols: tuple[str, ...] = ("classic", "consumer")
    """The protocols that are served."""
    group_consumer_session_timeout_ms: int = 45_000
    """How long a member of a consumer group may send nothing."""
    group_consumer_heartbeat_interval_ms: int = 5_000
    """How often members of consumer groups should send a heartbeat."""
    group_consumer_assignment_interval_ms: int = 1_000
    """Least time between two target assignments of a consumer group (KIP-1263)."""
    group_consumer_max_size: int = 2_147_483_647
    """Maximum number of members of a consumer group."""
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The assignors that members may want; the first one is for groups whose members want none."""
    group_consumer_migration_policy: str = "bidirectional"
    """Which conversions of groups with members are made: bidirectional, upgrade, downgrade, disabled."""
    group_consumer_regex_refresh_interval_ms: int = 600_000
    """How long the result of a regular expression stands, if no topics are created."""
    own: Mapping[str, OwnConfig] = field(default_factory=dict)
    """Configs of single groups, by group id."""
    group_coordinator_append_linger_ms: int = -1
    """How long the shell waits for more records before it writes a batch; -1 and 0: it does not wait."""
    offset_metadata_max_bytes: int = 4_096
    """Maximum length of a committed offset's metadata. Despite the name, Kafka counts UTF-16 units."""
    offsets_retention_minutes: int = 10_080
    """How long offsets are kept after their last use."""
    offsets_retention_check_interval_ms: int = 600_000
    """Time between two checks for expired offsets."""
    offsets_commit_timeout_ms: int = 5_000
    """How long the shell waits for the log before it reports REQUEST_TIMED_OUT to ``write_failed``."""
    attribution_simple_ttl_ms: int = 600_000
    """Muster's own: how long after its last request a consumer without membership counts as using a group."""

    rebalance_stuck_ms: int = 30_000
    """Muster's own: how long a phase of a rebalance may take before the watchdog reports whom it waits for."""
    heartbeat_lease_enable: bool = False
    """Muster's own: whether the shell passes leases to gateways, and what they have seen to ``seen``."""

    @property
    def offsets_retention_ms(self) -> int:
        """``offsets.retention.minutes`` in ms."""
        return self.offsets_retention_minutes * MS_PER_MINUTE

    @property
    def serves_consumer_groups(self) -> bool:
        return "consumer" in self.group_coordinator_rebalance_protocols

    def session_timeout_ms(self, group_id: str) -> int:
        """Return the session timeout of the consumer group's members."""
        own = self.own.get(group_id, _NOTHING_SET).consumer_session_timeout_ms
        return self.group_consumer_session_timeout_ms if own is None else own

    def heartbeat_interval_ms(self, group_id: str) -> int:
        own = self.own.get(group_id, _NOTHING_SET).consumer_heartbeat_interval_ms
        return self.group_consumer_heartbeat_interval_ms if own is None else own

    def assignment_interval_ms(self, group_id: str) -> int:
        own = self.own.get(group_id, _NOTHING_SET).consumer_assignment_interval_ms
        return self.group_consumer_assignment_interval_ms if own is None else own
