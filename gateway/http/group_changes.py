"""One group and its members, and changes of it: each is what a Kafka client would send, with the caller's rights.

``GET /v1/groups/describe?group=G``: state, protocol, and members with their assignments, and ``heartbeat_age_ms``: how
long ago the coordinator heard of each, null if it does not know. After a failover it counts from then.
``POST /v1/groups/evict``, ``{"group", "member_id"}``: removes a member, as ``muster groups evict`` does.
``POST /v1/groups/reset/plan``, ``{"group", "to", "topics"}``: what a reset of offsets would do, as ``muster groups
reset-offsets`` shows it. ``to`` is one of ``{"earliest": true}``, ``{"latest": true}``, ``{"offset": N}``,
``{"shift": N}``, ``{"time_ms": N}`` and ``{"undo": true}``; ``topics`` are ``T`` or ``T:0,1``, null for all with a
committed offset.
``POST /v1/groups/reset``, with the same body: makes it.

Changes, which a plan is not, need ``http.changes.enable=true``. Errors are those of
:mod:`muster.gateway.http.groups`: 409 for what the group's state does not allow.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from pydantic import Field, model_validator

from muster.actors.runtime.words import counted
from muster.gateway.client.groups import assignments, evicting, offsets, reset, reset_plan
from muster.gateway.client.groups.members import Group, Member, check_empty, described, in_words
from muster.gateway.http.groups import Body, Failed, as_json, body_of, query_coordinator, required
from muster.gateway.http.kafka import ThreadRequests, Works
from muster.gateway.listener.gateway import Gateway

EVICTED = "evicted over HTTP"
"""The reason in its LeaveGroup (KIP-800), which the coordinator records."""
_LARGEST = (1 << 63) - 1


class Eviction(Body):
    """The body of ``POST /v1/groups/evict``."""

    group: str = Field(min_length=1)
    member_id: str = Field(min_length=1)


class To(Body):
    """Where offsets are reset to: exactly one of these."""

    earliest: bool = False
    latest: bool = False
    undo: bool = False
    offset: int | None = Field(None, ge=0, le=_LARGEST)
    shift: int | None = Field(None, ge=-_LARGEST, le=_LARGEST)
    time_ms: int | None = Field(None, ge=0, le=_LARGEST)

    @model_validator(mode="after")
    def _is_one(self) -> To:
        given = [value for value in self.__dict__.values() if value is not None and value is not False]
        if len(given) != 1:
            raise ValueError("give one of earliest, latest, offset, shift, time_ms and undo")
        return self

    def target(self) -> reset.Target | None:
        """Return the target; None for the undo."""
        if self.offset is not None:
            return reset.to_offset(self.offset)
        if self.shift is not None:
            return reset.shift_by(self.shift)
        if self.time_ms is not None:
            return reset.to_time(self.time_ms)
        return None if self.undo else reset.to_earliest() if self.earliest else reset.to_latest()


class Reset(Body):
    """The body of ``POST /v1/groups/reset`` and of its plan."""

    group: str = Field(min_length=1)
    to: To
    topics: list[str] | None = None


def add_routes(app: web.Application, gateway: Gateway) -> None:
    """Serve the routes of this module; the app has not been started yet."""
    works = Works(gateway)

    async def describe(request: web.Request) -> dict[str, Any]:
        name = required(request, "group")
        group = await works.run(lambda kafka: _existing(kafka, name))
        ages_ms = await _heartbeat_ages_ms(gateway, name)
        return {**_as_json(group, ages_ms), "coordinator": f"offsets-{gateway.partition_of(name)}"}

    async def evict(request: web.Request) -> dict[str, Any]:
        eviction = await body_of(request, Eviction)
        await works.run(lambda kafka: _evict(kafka, eviction))
        return {"group": eviction.group, "member_id": eviction.member_id}

    async def plan_reset(request: web.Request) -> dict[str, Any]:
        return await reset_offsets(request, execute=False)

    async def reset_offsets(request: web.Request, *, execute: bool = True) -> dict[str, Any]:
        wanted = await body_of(request, Reset)
        topics = _topics(wanted.topics)
        return await works.run(lambda kafka: _reset(kafka, wanted, topics, execute=execute))

    app.router.add_get("/v1/groups/describe", as_json(describe))
    app.router.add_post("/v1/groups/evict", as_json(evict))
    app.router.add_post("/v1/groups/reset", as_json(reset_offsets))
    app.router.add_post("/v1/groups/reset/plan", as_json(plan_reset))


def _existing(kafka: ThreadRequests, name: str) -> Group:
    group = described(kafka.coordinator, name)
    if not group.exists:
        raise Failed(404, f"unknown group {name}")
    return group


async def _heartbeat_ages_ms(gateway: Gateway, group: str) -> Mapping[str, int]:
    """Return the ages by member; none if the coordinator does not say."""
    try:
        found = await query_coordinator(gateway, group, {"ask": "heartbeats", "group": group})
    except Failed:
        return {}
    ages_ms: Mapping[str, int] = found["ages_ms"]
    return ages_ms


def _as_json(group: Group, ages_ms: Mapping[str, int]) -> dict[str, Any]:
    return {
        "group": group.name,
        "state": group.state,
        "type": "classic" if group.epoch is None else "consumer",
        "protocol_type": group.protocol_type or None,
        "protocol": group.protocol,
        "epoch": group.epoch,
        "members": [_member(group, member, ages_ms.get(member.member_id)) for member in group.members],
    }


def _member(group: Group, member: Member, age_ms: int | None) -> dict[str, Any]:
    assigned: dict[str, list[int]] = {}
    for topic, partition in assignments.partitions(group.protocol_type, member):
        assigned.setdefault(topic, []).append(partition)
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "host": member.host,
        "group_instance_id": member.group_instance_id,
        "assignment": assigned,
        "heartbeat_age_ms": age_ms,
        "assigned": assignments.in_words(group.protocol_type, member),
    }


def _evict(kafka: ThreadRequests, eviction: Eviction) -> None:
    group = _existing(kafka, eviction.group)
    who = next((member for member in group.members if member.member_id == eviction.member_id), None)
    if who is None:
        raise Failed(404, f"group {eviction.group} has no member {eviction.member_id}")
    with kafka.coordinator(eviction.group) as coordinator:
        evicting.evict(coordinator, who, EVICTED)


def _topics(texts: list[str] | None) -> dict[str, list[int] | None] | None:
    """Return the partitions of each topic. Raises Failed (400)."""
    if texts is None:
        return None
    try:
        return reset.topics(texts)
    except ValueError as error:
        raise Failed(400, str(error)) from error


def _reset(kafka: ThreadRequests, wanted: Reset, topics: reset.Wanted | None, *, execute: bool) -> dict[str, Any]:
    group, target = described(kafka.coordinator, wanted.group), wanted.to.target()
    reset.check_has_offsets(group)
    if execute:
        check_empty(group.name, group.members, "its offsets cannot be reset")
    with kafka.coordinator(wanted.group) as coordinator:
        committed = offsets.fetch(coordinator)
        if target is None:
            plan = reset.plan_undo(kafka, kafka.coordinator, group, committed)
        else:
            plan = reset.plan(kafka, group, target, topics, committed)
        if execute:
            reset.execute(coordinator, kafka.coordinator, plan, time.time_ns() // 1_000_000)
    members = counted(len(group.members), "member")
    refused = f"group {group.name} has {members}; stop first: {in_words(group.members)}" if group.members else None
    return {
        "group": plan.group,
        "state": plan.state,
        "target": plan.words,
        "executed": execute,
        "words": reset_plan.effect(plan.changes, executed=execute),
        "changes": [change.row() for change in plan.changes],
        "notes": plan.notes,
        "refused": refused,
    }
