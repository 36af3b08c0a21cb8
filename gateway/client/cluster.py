"""A running Muster, or Kafka, as programs use it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

from muster.gateway.client.errors import NotRunning
from muster.gateway.client.kafka.brokers import Brokers, Coordinator
from muster.gateway.client.kafka.leaders import PATIENCE_S, Leaders

if TYPE_CHECKING:
    from muster.gateway.client.lag import Lag
    from muster.gateway.client.security import Security

_CLIENT_ID = "muster"
STOP_S = 60.0
"""Time for a Muster to stop in order."""


class Starter(Protocol):
    """Started a Muster, and can stop it."""

    @property
    def is_owner(self) -> bool:
        """Whether this process may stop it."""

    def stop(self, timeout_s: float) -> None:
        """Stop it in order. No effect if it has ended."""


@dataclass(frozen=True, slots=True, repr=False)
class Cluster:
    """Addresses and login of a cluster. It pickles, and has no connection.

    ``with`` and ``async with`` stop it at their end if it is of :func:`muster.run` or :func:`muster.start`; a copy, in
    another process, does not.
    """

    bootstrap: str
    """``HOST:PORT`` of each gateway, with commas, for ``bootstrap.servers``."""
    http: tuple[str, ...] = ()
    """Base URL of each gateway's HTTP API; empty if unknown, or of a real Kafka."""
    security: Security | None = None
    """Login and TLS; None: neither."""
    ray_address: str = field(default="", kw_only=True)
    """HOST:PORT of the GCS of the Ray that it runs on; empty if unknown, or if that Ray is its own."""
    starter: Starter | None = field(default=None, kw_only=True, compare=False)
    """For internal use."""

    def client(self, **more: Any) -> dict[str, Any]:
        """Return the configuration of a client of confluent-kafka, with login and TLS, and with ``more``.

        Of a name in ``more``, underscores are dots (``group_id="readers"``), but for callbacks: ``error_cb``,
        ``on_commit``.
        """
        security = {} if self.security is None else self.security.for_librdkafka()
        return {"bootstrap.servers": self.bootstrap, **security, **{_property(name): more[name] for name in more}}

    def topic(self, name: str, *, partitions: int = 1, config: Mapping[str, str] = {}) -> str:
        """Return the name of the topic, which is created if it is missing, with the cluster's default replication.

        Raises TopicDiffers if it exists with another number of partitions, or another value of a name in ``config``;
        NoResponse, Refused, LoginFailed.
        """
        from muster.gateway.client.kafka.topics import ensure_topic

        with self.brokers(_CLIENT_ID) as client:
            ensure_topic(client, name, partitions, config)
        return name

    def lag(self, group: str) -> Lag:
        """Return how far the group is behind. Its age in seconds is known where ``http`` is.

        Raises UnknownGroup, NoResponse, Refused, LoginFailed.
        """
        from muster.gateway.client.lag import lag_of

        with self.leaders(_CLIENT_ID) as leaders, self.coordinator(group, _CLIENT_ID) as coordinator:
            return lag_of(group, self.http, self.security, leaders, coordinator)

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Stop the Muster in order; no effect if it has ended. What muster.run started is killed after the timeout.

        A Muster of muster.start is stopped by whoever found it. Raises NotRunning for any other one, and for one of
        muster.run in any process but that; NoResponse if one of muster.start has not stopped in time.
        """
        if self.starter is not None:
            self.starter.stop(timeout_s)
        elif self.ray_address:
            from muster.gateway.client.on_ray import stop

            stop(self.ray_address, timeout_s, is_required=True)
        else:
            raise NotRunning(
                f"the Muster at {self.bootstrap} was not started from here: muster down stops it, with its storage "
                "directory, or the process that called muster.run"
            )

    def brokers(self, client_id: str) -> Brokers:
        """Return a client of any broker, for internal use."""
        return Brokers(self.bootstrap, client_id, self.security)

    def leaders(self, client_id: str, patience_s: float = PATIENCE_S) -> Leaders:
        """Return a client of the partitions' leaders, for internal use."""
        return Leaders(self.brokers(client_id), patience_s)

    def coordinator(self, group: str, client_id: str) -> Coordinator:
        """Return a client of the group's coordinator, for internal use."""
        return Coordinator(self.bootstrap, group, client_id, self.security)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.starter is not None and self.starter.is_owner:
            self.starter.stop(STOP_S)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.__exit__)

    def __repr__(self) -> str:
        return f"Cluster({self.bootstrap!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _copy, (self.bootstrap, self.http, self.security, self.ray_address)


def _copy(bootstrap: str, http: tuple[str, ...], security: Security | None, ray_address: str) -> Cluster:
    return Cluster(bootstrap, http, security, ray_address=ray_address)


def _property(name: str) -> str:
    return name if name.endswith("_cb") or name.startswith("on_") else name.replace("_", ".")
