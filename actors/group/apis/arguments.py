"""Checks that are made without the group, before it is known whether its partition is served here."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from muster.actors.group.config import GroupConfig
from muster.actors.group.consumer.arguments import check_consumer_heartbeat
from muster.actors.group.errors import ApiError
from muster.actors.group.messages import (
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetDelete,
    Request,
    SyncGroup,
    TxnOffsetCommit,
)
from muster.placement.client import Context

PROTOCOL_MANDATORY_FROM = 5
"""SyncGroup version (KIP-559)."""
MAX_STRING_BYTES = 32_767
_MAX_STRING_CHARS = MAX_STRING_BYTES // 4
"""No string of so many characters is longer than that."""
MAX_NAME_BYTES = MAX_STRING_BYTES - len("-00000000-0000-0000-0000-000000000000")
"""Longest name that a member id can be made of: no string of Kafka's protocol is longer than 32767 bytes."""

_NEEDS_GROUP_ID = (JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetDelete, TxnOffsetCommit)
"""The other APIs serve offsets that are stored under the empty group id."""

_OF_ONE_GROUP = (*_NEEDS_GROUP_ID, OffsetCommit, ConsumerGroupHeartbeat)


def check_arguments(config: GroupConfig, request: Request, context: Context) -> None:
    """Refuse what Kafka refuses in every state of the coordinator, in Kafka's order. Raises ApiError."""
    if isinstance(request, SyncGroup):
        _check_sync(request)
    if isinstance(request, _NEEDS_GROUP_ID) and not request.group_id:
        raise ApiError(ErrorCode.invalid_group_id)
    if isinstance(request, _OF_ONE_GROUP):
        _check_length(request.group_id)
    if isinstance(request, JoinGroup):
        _check_join(config, request, context)
    if isinstance(request, ConsumerGroupHeartbeat | ConsumerGroupDescribe) and not config.serves_consumer_groups:
        raise ApiError(ErrorCode.unsupported_version)
    if isinstance(request, ConsumerGroupHeartbeat):
        _check_length(request.member_id)
        _check_length(request.regex or "")
        check_consumer_heartbeat(config, request)


def _check_length(text: str) -> None:
    """Refuse text longer than a string in the records of Kafka's first versions, which Kafka fails to write."""
    if len(text) > _MAX_STRING_CHARS and len(text.encode()) > MAX_STRING_BYTES:
        raise ApiError(ErrorCode.unknown_server_error)


def _check_sync(request: SyncGroup) -> None:
    if request.api_version >= PROTOCOL_MANDATORY_FROM and None in (request.protocol_type, request.protocol_name):
        raise ApiError(ErrorCode.inconsistent_group_protocol)


def _check_join(config: GroupConfig, request: JoinGroup, context: Context) -> None:
    if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
        raise ApiError(ErrorCode.invalid_session_timeout)
    for text in (request.member_id, request.protocol_type, *(name for name, _ in request.protocols)):
        _check_length(text)
    if not request.member_id:
        name = context.client_id if request.group_instance_id is None else request.group_instance_id
        if name and len(name.encode()) > MAX_NAME_BYTES:
            raise ApiError(ErrorCode.unknown_server_error)
