"""Checks of a ConsumerGroupHeartbeat's fields, by its epoch, whatever the group is."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from muster.actors.group.config import GroupConfig
from muster.actors.group.errors import ApiError
from muster.actors.group.messages import ConsumerGroupHeartbeat

_MEMBER_ID_FROM = 1
"""From this version on the client makes the member id (KIP-1082)."""


def check_consumer_heartbeat(config: GroupConfig, request: ConsumerGroupHeartbeat) -> None:
    """Check the fields, in the order and with the texts of Kafka's checks. Raises ApiError."""
    wrong = _wrong(request)
    if wrong is not None:
        raise ApiError(ErrorCode.invalid_request, message=wrong)
    assignors = config.group_consumer_assignors
    if request.server_assignor is not None and request.server_assignor not in assignors:
        text = (
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        )
        raise ApiError(ErrorCode.unsupported_assignor, message=text)


def _wrong(request: ConsumerGroupHeartbeat) -> str | None:
    epoch = request.member_epoch
    if (request.api_version >= _MEMBER_ID_FROM or epoch != 0) and not request.member_id.strip():
        return "MemberId can't be empty."
    if not request.group_id:
        return "GroupId can't be empty."
    for name, value in (("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        if value is not None and not value.strip():
            return f"{name} can't be empty."
    if epoch == 0:
        return _wrong_in_join(request)
    if epoch == -2 and request.instance_id is None:
        return "InstanceId can't be null."
    return "MemberEpoch is invalid." if epoch < -2 else None


def _wrong_in_join(request: ConsumerGroupHeartbeat) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.owned is None or request.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if request.topics is None and request.regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None
