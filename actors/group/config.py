"""The configuration of a group coordinator: Kafka's broker properties, with underscores for dots."""

from __future__ import annotations

from dataclasses import dataclass

MS_PER_MINUTE = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Kafka's properties for classic groups and their offsets, with Kafka's defaults."""

    group_min_session_timeout_ms: int = 6_000
    """Lowest session timeout that a JoinGroup may request (inclusive)."""
    group_max_session_timeout_ms: int = 1_800_000
    """Highest session timeout that a JoinGroup may request (inclusive)."""
    group_initial_rebalance_delay_ms: int = 3_000
    """How long the first rebalance of an Empty group waits for more members."""
    group_max_size: int = 2_147_483_647
    """Maximum number of members of a group."""
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
