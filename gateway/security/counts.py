"""How clients log in, counted as Kafka does (``org.apache.kafka.common.network.Selector``)."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True)
class LoginCounts:
    """Counts by listener, since the gateway started."""

    totals: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By metric, and listener."""
    again_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """How long clients took to authenticate again, in s, in all."""

    def succeeded(self, listener: str, *, knows_lifetimes: bool) -> None:
        """Count a login. A client without ``knows_lifetimes`` is cut off when its session ends, if it ends."""
        self.totals["muster_successful_authentications_total", listener] += 1
        if not knows_lifetimes:
            self.totals["muster_successful_authentications_no_reauth_total", listener] += 1

    def failed(self, listener: str, *, again: bool) -> None:
        kind = "reauthentications" if again else "authentications"
        self.totals[f"muster_failed_{kind}_total", listener] += 1

    def again(self, listener: str, duration_s: float) -> None:
        """Count a client that authenticated again, from its handshake to its last token."""
        self.totals["muster_successful_reauthentications_total", listener] += 1
        self.again_s[listener] += duration_s

    def expired(self, listener: str) -> None:
        """Count a connection that was closed because its session's lifetime was over."""
        self.totals["muster_expired_connections_killed_total", listener] += 1
