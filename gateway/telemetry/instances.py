"""The client instances of one gateway, and which of their requests are in time (Kafka's ClientMetricsManager)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.telemetry.subscriptions import Client, Subscription, Wanted, wanted_of

MAX_INSTANCES = 16_384
"""Limit of Kafka; the instance that was heard of longest ago is forgotten first."""
_MAY_REPEAT = (ErrorCode.unknown_subscription_id, ErrorCode.unsupported_compression_type)
"""After these, a client may request its subscription at once."""
_SILENT_INTERVALS = 3
_MIN_SILENT_MS = 60_000
"""Long enough for a scrape of the last push."""


class Refused(Exception):
    """The request gets this error."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class ClientInstance:
    """Times are ms; 0 for never."""

    __slots__ = (
        "is_informed",
        "is_terminating",
        "last_error",
        "last_get_ms",
        "last_push_ms",
        "subscriptions",
        "wanted",
    )

    def __init__(self, wanted: Wanted, subscriptions: Sequence[Subscription]) -> None:
        self.wanted = wanted
        self.subscriptions = subscriptions
        """Subscriptions by which ``wanted`` was decided."""
        self.is_informed = False
        """Whether it has been sent its subscription since its last push."""
        self.is_terminating = False
        self.last_error = ErrorCode.none
        self.last_get_ms = 0
        self.last_push_ms = 0

    @property
    def last_ms(self) -> int:
        return max(self.last_get_ms, self.last_push_ms)

    def may_get(self, now_ms: int) -> bool:
        """Whether it may request its subscription now; if so, it has."""
        if now_ms - self.last_ms < self.wanted.interval_ms and self.last_error not in _MAY_REPEAT and self.last_ms:
            return False
        self.last_get_ms, self.is_informed = now_ms, True
        return True

    def may_push(self, now_ms: int) -> bool:
        """Whether it may push now; if so, it has. The first push after a subscription may come at any time."""
        if not self.is_informed and now_ms - self.last_push_ms < self.wanted.interval_ms:
            return False
        self.last_push_ms, self.is_informed = now_ms, False
        return True


class ClientInstances:
    """``now_ms`` never goes back."""

    def __init__(self) -> None:
        self.subscriptions: Sequence[Subscription] = ()
        """Replaced as a whole when any of them is altered."""
        self._instances: dict[UUID, ClientInstance] = {}
        """The one that was heard of longest ago is first."""
        self._evicted: set[UUID] = set()
        """Forgotten to make room, since the last :meth:`forget_silent`."""

    def __contains__(self, instance_id: UUID) -> bool:
        return instance_id in self._instances

    def __len__(self) -> int:
        return len(self._instances)

    def subscribe(self, client: Client, now_ms: int) -> Wanted:
        """Return the response to GetTelemetrySubscriptions. Raises Refused."""
        instance = self._instance(client)
        if not instance.may_get(now_ms):
            instance.last_error = ErrorCode.throttling_quota_exceeded
            raise Refused(instance.last_error)
        instance.last_error = ErrorCode.none
        return instance.wanted

    def push(self, client: Client, subscription_id: int, now_ms: int, *, is_last: bool, error: ErrorCode) -> Wanted:
        """Take a PushTelemetry. ``error`` is that of its content, if any. Raises Refused."""
        instance = self._instance(client)
        instance.last_error = self._push_error(instance, subscription_id, now_ms, is_last=is_last, error=error)
        if instance.last_error is not ErrorCode.none:
            raise Refused(instance.last_error)
        instance.is_terminating = is_last
        return instance.wanted

    @staticmethod
    def _push_error(
        instance: ClientInstance, subscription_id: int, now_ms: int, *, is_last: bool, error: ErrorCode
    ) -> ErrorCode:
        if instance.is_terminating:
            return ErrorCode.invalid_request
        if not instance.may_push(now_ms) and not is_last:
            return ErrorCode.throttling_quota_exceeded
        if subscription_id != instance.wanted.subscription_id:
            return ErrorCode.unknown_subscription_id
        return error

    def failed(self, instance_id: UUID, error: ErrorCode) -> None:
        """Note that its push cannot be used."""
        if instance_id in self._instances:
            self._instances[instance_id].last_error = error

    def _instance(self, client: Client) -> ClientInstance:
        instance_id = client.client_instance_id
        instance = self._instances.pop(instance_id, None)
        if instance is None or instance.subscriptions is not self.subscriptions:
            before, instance = instance, ClientInstance(wanted_of(client, self.subscriptions), self.subscriptions)
            if before is not None:
                instance.is_terminating, instance.last_error = before.is_terminating, before.last_error
                instance.is_informed = before.is_informed
                instance.last_get_ms, instance.last_push_ms = before.last_get_ms, before.last_push_ms
        self._instances[instance_id] = instance
        while len(self._instances) > MAX_INSTANCES:
            evicted = next(iter(self._instances))
            del self._instances[evicted]
            self._evicted.add(evicted)
        return instance

    def forget_silent(self, now_ms: int) -> list[UUID]:
        """Forget those that have said nothing for three intervals, or have ended.

        Returns them, and those that were forgotten to make room.
        """
        evicted = [instance_id for instance_id in self._evicted if instance_id not in self._instances]
        self._evicted.clear()
        silent = []
        for instance_id, instance in self._instances.items():
            intervals = 0 if instance.is_terminating else _SILENT_INTERVALS
            if now_ms - instance.last_ms > max(intervals * instance.wanted.interval_ms, _MIN_SILENT_MS):
                silent.append(instance_id)
        for instance_id in silent:
            del self._instances[instance_id]
        return [*evicted, *silent]
