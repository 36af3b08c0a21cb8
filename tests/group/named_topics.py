"""The names that a gateway gives to topics that a request names by id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from muster.actors.group.messages import OffsetCommit, OffsetFetch, Request


def with_names(request: Request, names: Mapping[UUID, str]) -> Request:
    """Return the request with the names of its topics, as far as they are known."""

    def named(topics: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        return topics and tuple(replace(each, name=each.name or names.get(each.topic_id, "")) for each in topics)

    if isinstance(request, OffsetCommit):
        return replace(request, topics=named(request.topics) or ())
    if isinstance(request, OffsetFetch):
        return replace(request, groups=tuple(replace(each, topics=named(each.topics)) for each in request.groups))
    return request
