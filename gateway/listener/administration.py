"""Records the administrative requests of a connection in the gateway's trail."""

from __future__ import annotations

from functools import partial
from uuid import UUID

from muster.actors.wire.kafka import codec
from muster.gateway.administration.requests import READERS, is_by_members
from muster.gateway.administration.trail import Who
from muster.gateway.listener.api import Call, Reply
from muster.gateway.listener.gateway import Gateway

DOOR = "kafka"


def record(call: Call, reply: Reply) -> None:
    """Record what the request changed or was refused, if it was administrative. Never raises."""
    trail, header, connection = call.gateway.trail, call.header, call.connection
    if trail is None:
        return
    try:
        group = connection.attribution.group_of(header.client_id)
        if is_by_members(header.api_key, call.peeked, call.entity, group):
            return
        name, read = READERS[header.api_key]
        frame = b"".join(bytes(part) for part in reply.in_memory)
        _, response = codec.decode_response(header.api_key, header.api_version, frame)
        who = Who(connection.principal, connection.host, header.client_id, connection.id)
        for change in read(name, call.entity(), response, partial(_name_of, call.gateway)):
            trail.record(connection.door, who, change)
    except Exception as error:
        call.gateway.limited_log.exception(error, "trail", connection.host, "a request is not in the trail")


def _name_of(gateway: Gateway, topic_id: UUID) -> str | None:
    topic = gateway.view.topic_by_id(topic_id)
    return None if topic is None else topic.name
