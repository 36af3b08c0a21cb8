"""The gateway as its API handlers see it: no Ray, and no listener (:mod:`muster.gateway.listener.server`)."""

from __future__ import annotations

import asyncio
import logging
import secrets
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from muster.actors.audit.report import Report
from muster.actors.config import Listener, MusterConfig, group_config, in_force, transaction_config
from muster.actors.config.parts.quota_properties import parse_overrides
from muster.actors.runtime.process import now_ms
from muster.actors.wire.internal.channel import Channel, ChannelLost
from muster.actors.wire.limited_log import LimitedLog
from muster.gateway.administration.trail import Trail
from muster.gateway.attribution.account import Account
from muster.gateway.attribution.connection import ConnectionState
from muster.gateway.attribution.table import HEAR_MS
from muster.gateway.fetch_sessions.cache import FetchSessions
from muster.gateway.listener.complaints import Cause, Complaint
from muster.gateway.listener.controller import Controller, ControllerUnavailable, ProducerIds
from muster.gateway.listener.forward import ActorKey, Forwarder
from muster.gateway.listener.leader_epochs import LeaderEpochs
from muster.gateway.listener.leased import LeasedHeartbeats
from muster.gateway.listener.limiting.holding import Holding
from muster.gateway.listener.limiting.response_memory import ResponseMemory
from muster.gateway.listener.limiting.throttling import monotonic_ms
from muster.gateway.listener.limiting.turns import Turns
from muster.gateway.listener.turned_away import TurnedAwayClients
from muster.gateway.metrics.gateway import GatewayMetrics
from muster.gateway.quotas.clients import ClientQuotas
from muster.gateway.quotas.connections import ConnectionLimits, Connections
from muster.gateway.quotas.rate import Window
from muster.gateway.quotas.reading import group_rates_of, ip_rates_of, limits_of
from muster.gateway.security.authorization.authorization_log import AuthorizationLog
from muster.gateway.security.authorization.authorizer import Authorizer
from muster.gateway.security.sasl import Sasl
from muster.gateway.security.session import SaslSession
from muster.gateway.security.tls.listeners import TlsListeners
from muster.gateway.telemetry.instances import ClientInstances
from muster.gateway.telemetry.series import ClientSeries
from muster.gateway.telemetry.subscriptions import subscriptions_of
from muster.placement.hashing import partition_for
from muster.placement.mapping.registration import Registration, RegistrationUpdate
from muster.placement.security.acls import AclOperation, AclResourceType
from muster.placement.view import OFFSETS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, ClusterView, Topic

log = logging.getLogger(__name__)

_HEAR_AGAIN_S = 0.05
_FIRST_CONNECT_S = 5.0


class ClientConnection(Protocol):
    """A client's connection, as handlers see it (:class:`muster.gateway.listener.connection.Connection`)."""

    id: str
    host: str
    """The client's host; ``port`` is the client's, too."""
    door: str
    """The way its requests come, for the trail: ``kafka`` or ``http``."""
    port: int
    listener: Listener
    """The one that the client came in on."""
    principal: str
    context: bytes
    """The client's identity, as sent to actors."""
    sasl: SaslSession | None
    attribution: ConnectionState
    software: tuple[str, str]
    """Name and version of the client's library, as ApiVersions named them (KIP-511)."""
    last_active_s: float
    leases: LeasedHeartbeats
    has_old_metadata: bool
    """Whether its next Fetch gets an error that makes the client request the metadata."""
    late_produces: int
    """Produce requests that wait for a view with their topics; later ones wait behind them."""
    late_turn: asyncio.Lock
    tasks: int
    """Number of requests that tasks serve, which may not have begun: later ones must not overtake them."""

    @property
    def waiting(self) -> bool:
        """Whether one of its requests is being served."""

    @property
    def log_fields(self) -> dict[str, object]:
        """Fields of their own in log lines about this connection."""

    @property
    def is_muted(self) -> bool:
        """Whether no request is started, since the client exceeds a quota."""

    def unmute(self) -> None:
        """Unmute: the quotas have changed, and judge what comes next."""

    def close_if_left(self) -> None:
        """Close it if the client has closed it while it is muted, and so not read."""

    def authenticated(self, user: str) -> None:
        """Set the connection's user from now on."""

    def refuse(self, cause: Cause, text: str) -> None:
        """Close it once all earlier requests are answered."""

    def close(self, complaint: Complaint | None = None) -> None:
        """Close it once what is queued for it is sent."""

    def end_when_idle(self) -> None:
        """Close it once no request waits for its response."""

    def end_soon(self, complaint: Complaint) -> None:
        """Close it once all requests so far are answered, unless one may take long."""


class RequestFaults(Protocol):
    """The faults that are injected into requests (:class:`muster.gateway.faults.injection.GatewayFaults`)."""

    @property
    def is_idle(self) -> bool:
        """Whether no fault is in force here."""

    def followed(self, view: ClusterView) -> None: ...
    async def serve(self, call: Any, api: str, handler: Any) -> Any: ...


class Gateway:
    """One Kafka broker, as its clients see it."""

    def __init__(
        self,
        *,
        gateway_id: int,
        node_id: str,
        config: MusterConfig,
        controller: Controller,
        account: Account[Any],
        metrics: GatewayMetrics,
        view: ClusterView,
        storage: Path | None = None,
    ) -> None:
        """``storage``: the directory of all data, storage.path if not given."""
        self.id = gateway_id
        self.node_id = node_id
        self.storage = storage or config.directory
        self.started_with = config
        self.config = in_force(config, view.configs, gateway_id)
        """The configuration in force; alterations come with the view."""
        self.group_config = group_config(self.config)
        self.transaction_config = transaction_config(self.config)
        self.controller = controller
        self.account = account
        self.metrics = metrics
        self.view = view
        self.sasl = Sasl.of(config)
        if self.sasl is not None:
            metrics.logins = self.sasl.counts
            self._follow_users(view)
            log.info("users that may log in: %s", self.sasl.sources())
        self.tls = TlsListeners(self.config)
        metrics.certificates = self.tls.days_left
        self.authorizer = self._authorizer_of(view)
        """None: everyone may do everything."""
        self.authorization_log = AuthorizationLog()
        self.leader_epochs = LeaderEpochs()
        self.forwarder = Forwarder(node_id, self._heard, self.leader_epochs.heard)
        self.connections: dict[str, ClientConnection] = {}
        self.audit_report = Report()
        """The latest report of the audit."""
        self.complaints = LimitedLog(logging.getLogger("muster.gateway.listener.connection"))
        """The log of connections; clients must not be able to flood it."""
        self.turned_away = TurnedAwayClients()
        self.trail: Trail | None = None
        """Trail of administrative requests; set before the gateway listens, if they are recorded."""
        self.turns = Turns()
        """Turns of connections with more than a request, and of long work."""
        self.response_memory = ResponseMemory(config.queued_max_response_bytes)
        """Memory of responses that clients do not take."""
        self.reading_whole = asyncio.Lock()
        """Held while the records of a large response are read as a whole: the memory is that of one."""
        self.holding = Holding(config.connection_invalid_request_delay_ms)
        """Connections that have sent what can be no request."""
        self.faults: RequestFaults | None = None
        """Set before the gateway listens, if fault injection is enabled."""
        self.fetch_sessions = FetchSessions(
            slots=config.max_incremental_fetch_session_cache_slots,
            eviction_ms=config.min_incremental_fetch_session_eviction_ms,
            new_id=lambda: 1 + secrets.randbelow(2**31 - 1),
        )
        metrics.fetch_sessions = self.fetch_sessions
        metrics.reachable = lambda: self.forwarder.reachable
        metrics.storage = self.storage
        self.client_instances = ClientInstances()
        self.pushing = asyncio.Lock()
        """Held while what a client has pushed is decompressed: the memory is that of one push."""
        self._client_metrics = view.configs.client_metrics
        self.client_instances.subscriptions = subscriptions_of(self._client_metrics)
        self.client_series = metrics.client_series = ClientSeries(config.metrics_max_client_series)
        metrics.client_instances = self.client_instances
        self._producer_ids = ProducerIds(controller.producer_ids)
        self.limited_log = LimitedLog(log)
        """The log of other events that clients can cause."""
        self._activating: dict[ActorKey, asyncio.Task[None]] = {}
        self._view_changed = asyncio.Event()
        self._hearing: asyncio.Task[None] | None = None
        self._hears_again = False
        self._client_quotas = ClientQuotas(
            Window(config.quota_window_num, config.quota_window_size_seconds * 1000),
            Window(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000),
        )
        self.quotas: ClientQuotas | None = None
        """Quotas of clients; None while there is none."""
        metrics.quotas = self._client_quotas
        self.accepted = Connections(self._client_quotas.window)
        metrics.accepted = self.accepted
        self._limit_clients(view)
        self._limit_connections(view)
        account.on_begun = self._hear
        account.limit_hints(self.may_read_group)
        self.forwarder.follow(view)

    now_ms = staticmethod(now_ms)
    """The gateway's clock, ms since the Unix epoch; never goes back."""

    def opened(self, connection: ClientConnection) -> None:
        self.connections[connection.id] = connection
        self.metrics.connection_opened()

    def closed(self, connection: ClientConnection) -> None:
        if self.connections.pop(connection.id, None):
            self.metrics.connection_closed()
            self.account.closed(connection.attribution)

    def follow(self, view: ClusterView) -> None:
        """Apply a newer view; an older one is ignored."""
        if view.order <= self.view.order:
            return
        self.leader_epochs.follow(self.view, view)
        if view.configs.acls != self.view.configs.acls:
            self.authorizer = self._authorizer_of(view)
        self.view = view
        self._configure(view)
        self.forwarder.follow(view)
        self.metrics.view(view.order)
        if self.faults is not None:
            self.faults.followed(view)
        changed, self._view_changed = self._view_changed, asyncio.Event()
        changed.set()

    def _follow_users(self, view: ClusterView) -> None:
        if self.sasl is not None:
            self.sasl.follow(view.configs.entities, view.configs.login_secret)

    def _configure(self, view: ClusterView) -> None:
        self._follow_users(view)
        if view.configs.client_metrics != self._client_metrics:
            self._client_metrics = view.configs.client_metrics
            self.client_instances.subscriptions = subscriptions_of(self._client_metrics)
        self._limit_clients(view)
        config = in_force(self.started_with, view.configs, self.id)
        if config is not self.config:
            self.config = config
            self.tls.follow(config)
            self.group_config = group_config(config)
            self.transaction_config = transaction_config(config)
        self._limit_connections(view)

    def _authorizer_of(self, view: ClusterView) -> Authorizer | None:
        config = self.started_with
        self.metrics.acls = len(view.configs.acls)
        if not config.authorizer_class_name:
            return None
        allow_everyone = config.allow_everyone_if_no_acl_found
        return Authorizer(view.configs.acls, config.super_user_principals, allow_everyone=allow_everyone)

    def may_read_group(self, principal: str, host: str, group: str) -> bool:
        """Whether what that client does or says may be evidence of the group. No decision about a request."""
        authorizer = self.authorizer
        if authorizer is None:
            return True
        return authorizer.allows(principal, host, AclOperation.READ, AclResourceType.GROUP, group)

    def _limit_clients(self, view: ClusterView) -> None:
        """Apply the view's quotas from now on, also to what clients have used before."""
        quotas, configs = self._client_quotas, view.configs
        if not quotas.follow(limits_of(configs.entities), group_rates_of(configs.groups)):
            return
        self.quotas = quotas if quotas.is_active else None
        self.account.on_attributed = self._charge_group if quotas.limits_groups else None
        for connection in list(self.connections.values()):
            connection.leases = LeasedHeartbeats()  # which are not measured
            connection.unmute()

    def _limit_connections(self, view: ClusterView) -> None:
        config, overrides = self.config, self.config.max_connections_per_ip_overrides
        self.accepted.limits = ConnectionLimits(
            config.max_connections,
            config.max_connection_creation_rate,
            config.max_connections_per_ip,
            {} if overrides is None else parse_overrides(overrides),
            ip_rates_of(view.configs.entities),
        )

    def _charge_group(self, group_id: str, size_bytes: int) -> None:
        meter = self._client_quotas.group(group_id)
        if meter is not None:
            meter.record(size_bytes, monotonic_ms())

    def forget_silent_clients(self) -> None:
        """Drop what is kept of clients that have ended. Call it about once a second."""
        self._client_quotas.forget_unused(monotonic_ms())
        self.accepted.forget_unused(monotonic_ms())
        self.client_series.forget(self.client_instances.forget_silent(now_ms()))

    async def until_view(self, ready: Any, timeout_s: float) -> bool:
        """Wait until ``ready(view)`` holds; False after the timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                while not ready(self.view):
                    await self._view_changed.wait()
        except TimeoutError:
            return False
        return True

    def _heard(self, partition: int, epoch: int, updates: tuple[RegistrationUpdate, ...], snapshot: bool) -> None:
        if snapshot:
            registrations = (item for item in updates if isinstance(item, Registration))
            self.account.replace(partition, epoch, registrations, now_ms())
        else:
            self.account.updates(updates, now_ms())

    def _hear(self) -> None:
        """Report to the account up to when it has all that coordinators sent. Calls meanwhile cause one more round."""
        if self._hearing is not None and not self._hearing.done():
            self._hears_again = True
        else:
            self._hearing = asyncio.get_running_loop().create_task(self._query_coordinators())

    async def _query_coordinators(self) -> None:
        """Query the coordinators: each sends its decisions before its response, so all of them have arrived then."""
        self._hears_again = True
        while self._hears_again:
            self._hears_again, sent_ms = False, now_ms()
            try:
                async with asyncio.timeout(HEAR_MS / 1000):
                    await asyncio.gather(
                        *(channel.query({"ask": "heard"}) for channel in self.forwarder.coordinators())
                    )
            except (ChannelLost, TimeoutError) as error:
                log.debug("not all coordinators can be heard: %s", error)
            else:
                self.account.heard(sent_ms)
            await asyncio.sleep(_HEAR_AGAIN_S)

    def topic(self, name: str | None, topic_id: UUID | None) -> Topic | None:
        """Return the topic by name or, if the request has none, by id."""
        if name:
            return self.view.topics.get(name)
        return self.view.topic_by_id(topic_id) if topic_id else None

    def partition_of(self, group_id: str) -> int:
        """Return the offsets partition of a group."""
        topic = self.view.topics.get(OFFSETS_TOPIC)
        return partition_for(group_id, topic.partitions if topic else self.config.offsets_topic_num_partitions)

    def transactions_partition_of(self, transactional_id: str) -> int:
        """Return the partition of ``__transaction_state`` of a producer."""
        topic = self.view.topics.get(TRANSACTIONS_TOPIC)
        count = topic.partitions if topic else self.config.transaction_state_log_num_partitions
        return partition_for(transactional_id, count)

    def activate(self, partition: int, kind: str = OFFSETS) -> asyncio.Task[None]:
        """Have the partition's actor started; one request to the controller, however many wait."""
        key = (kind, partition)
        task = self._activating.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._activate(partition, kind))
            self._activating[key] = task
            task.add_done_callback(lambda _: self._activating.pop(key, None))
        return task

    async def _activate(self, partition: int, kind: str) -> None:
        try:
            await self.controller.activate(partition, kind)
        except ControllerUnavailable as error:
            actor = f"{kind}-{partition}"
            self.limited_log.warning("start", actor, "%s cannot be started now: %s", actor, error)

    async def coordinator_ready(self, partition: int, timeout_s: float, kind: str = OFFSETS) -> bool:
        """Wait until the partition's actor is connected, starting it if necessary. Returns whether it is."""
        key = (kind, partition)
        if self.forwarder.channel(key) is not None:
            return True
        if self.view.owners(kind).get(partition) is None:
            self.activate(partition, kind)
        return await self.forwarder.until(lambda: self.forwarder.channel(key) is not None, timeout_s)

    async def coordinator(self, partition: int, kind: str = OFFSETS) -> Channel | None:
        """Return the channel to the partition's actor, or None while the actor is down.

        Waits for an actor that this gateway has not connected to yet: FindCoordinator may have returned this gateway
        when the actor had just started, and only the gateway that was asked had connected to it. If the actor was lost,
        waits a moment for its standby.
        """
        key = (kind, partition)
        channel = self.forwarder.channel(key)
        if channel is not None:
            return channel
        if partition in self.view.owners(kind) and not self.forwarder.is_new(key):
            channel = await self.forwarder.soon(key)
        if channel is None and (partition not in self.view.owners(kind) or self.forwarder.is_new(key)):
            await self.coordinator_ready(partition, _FIRST_CONNECT_S, kind)
            channel = self.forwarder.channel(key)
        return channel

    async def next_producer_id(self) -> int:
        """Return an id that no other producer of this cluster has or had. Raises ControllerUnavailable."""
        return await self._producer_ids.next()

    async def stop(self) -> None:
        """Close the open connections and everything that serves them."""
        if self._hearing is not None:
            self._hearing.cancel()
        self._producer_ids.stop()
        for activating in list(self._activating.values()):
            activating.cancel()
        for connection in list(self.connections.values()):
            connection.close()
        self.authorization_log.flush()
        self.complaints.flush()
        self.limited_log.flush()
        if self.sasl is not None:
            self.sasl.close()
        self.tls.close()
        self.forwarder.close()
