"""The routes of groups and their rebalances."""

from __future__ import annotations

from muster.gateway.http.openapi.parts import (
    BOOL,
    COUNT,
    LAG,
    OFFSET,
    PAGE,
    PARTIAL,
    SILENT,
    TEXT,
    TIME,
    WHOLE,
    Json,
    Route,
    Routes,
    array,
    described,
    limit_of,
    map_of,
    opened,
    or_null,
    parameter,
    ref,
    whole,
)

_GROUP = parameter("group", TEXT, "Name of the group.", required=True)
_SELECTED = ("group", "cause", "ending")
_SINCE = parameter("since_ms", TIME, "Leave out what ended before.")
_TOTAL: Json = {**LAG, "behind": COUNT, "without_commit": COUNT, "messages_without_commit": COUNT}
_TOTAL["unread"] = or_null(COUNT)
_WHO: Json = {"member_id": TEXT, "client_id": or_null(TEXT), "host": TEXT, "group_instance_id": or_null(TEXT)}
_CAUSED_BY: Json = {"culprit": {"oneOf": [{"type": "null"}, whole(**_WHO)]}}
_ASSIGNED: Json = map_of(array(COUNT))


def schemas() -> Json:
    """Return the schemas that they refer to."""
    waits = array(whole(**_WHO, after_ms=or_null(COUNT), held_ms=COUNT))
    return {
        "Rebalance": whole(
            group=TEXT,
            offsets_partition=COUNT,
            epoch=WHOLE,
            number=COUNT,
            began_ms=TIME,
            joined_ms=or_null(TIME),
            stable_ms=or_null(TIME),
            ended_ms=TIME,
            ending=described(TEXT, "stable, empty, restarted, aborted or running."),
            cause=TEXT,
            **_CAUSED_BY,
            reason=or_null(TEXT),
            previous_generation=WHOLE,
            generation=or_null(WHOLE),
            members_before=COUNT,
            members_after=or_null(COUNT),
            join_waits=waits,
            sync_waits=waits,
            added=array(whole(**_WHO)),
            gone=array(whole(**_WHO, cause=or_null(TEXT), reason=or_null(TEXT))),
            lost_partition_ms=or_null(COUNT),
            partitions=array(whole(topic=TEXT, partition=COUNT, ms=COUNT)),
        ),
        "Waiting": whole(
            group=TEXT,
            state=TEXT,
            generation=WHOLE,
            since_ms=TIME,
            deadline_ms=or_null(TIME),
            initial_delay=BOOL,
            leader=or_null(TEXT),
            members=array(whole(**_WHO)),
            members_left_out=COUNT,
            pending=array(whole(**_WHO)),
            pending_left_out=COUNT,
        ),
        "ResetPlan": whole(
            group=TEXT,
            state=TEXT,
            target=TEXT,
            executed=BOOL,
            words=TEXT,
            changes=array(
                whole(
                    topic=TEXT,
                    partition=COUNT,
                    old_offset=or_null(COUNT),
                    offset=or_null(COUNT),
                    read_again=or_null(COUNT),
                    skipped=or_null(COUNT),
                    note=or_null(TEXT),
                )
            ),
            notes=array(TEXT),
            refused=described(or_null(TEXT), "Why the group's state does not allow it now."),
        ),
    }


def routes() -> Routes:
    """Return the routes by method and path."""
    partition = {
        "topic": TEXT,
        "partition": COUNT,
        "committed_offset": or_null(COUNT),
        "end_offset": or_null(COUNT),
        **LAG,
        "lag": described(or_null(WHOLE), "Below 0 if the committed offset is beyond the end of the log."),
        "messages_without_commit": or_null(COUNT),
        **{name: or_null(TEXT) for name in ("member_id", "client_id", "host")},
    }
    one = whole(group=TEXT, state=TEXT, **_TOTAL, partitions=array(whole(**partition)))
    of_all = whole(group=TEXT, state=TEXT, type=TEXT, protocol_type=or_null(TEXT), members=COUNT, **_TOTAL)
    of_all["properties"]["partitions"] = COUNT
    sorts = {"type": "string", "enum": ["worst", "lag_s", "lag", "members", "group"], "default": "worst"}
    member = {**_WHO, "assignment": _ASSIGNED, "assigned": TEXT, "heartbeat_age_ms": or_null(COUNT)}
    return {
        ("get", "/v1/events"): Route(
            "followEvents",
            "Follow rebalances that end, faults, and actors that go and come, as server-sent events.",
            TEXT,
            (
                *(parameter(name, array(TEXT), f"Only rebalances with one of these: {name}.") for name in _SELECTED),
                parameter("kind", array(TEXT), "Only events of these kinds: rebalance, fault, actor."),
                parameter("last_event_id", TEXT, "Go on after this event, like the header Last-Event-ID."),
            ),
            errors=("400",),
            media="text/event-stream",
        ),
        ("get", "/v1/groups/describe"): Route(
            "describeGroup",
            "Describe a group and its members.",
            whole(
                group=TEXT,
                state=TEXT,
                type={"enum": ["classic", "consumer"]},
                protocol_type=or_null(TEXT),
                protocol=or_null(TEXT),
                epoch=or_null(WHOLE),
                coordinator=TEXT,
                members=array(whole(**member)),
            ),
            (_GROUP,),
            errors=("400", "404", "409"),
        ),
        ("post", "/v1/groups/evict"): Route(
            "evictMember",
            "Remove a member from a group.",
            whole(group=TEXT, member_id=TEXT),
            body="Eviction",
            errors=("400", "404", "409", "415"),
        ),
        ("get", "/v1/groups/history"): Route(
            "listRebalancesOfGroup",
            "List the last rebalances of a group, newest first.",
            whole(group=TEXT, entries=array(ref("Rebalance"))),
            (_GROUP, limit_of(20, 10_000)),
            errors=("400", "404"),
        ),
        ("get", "/v1/groups/lag"): Route(
            "listLag",
            "List how far all groups are behind, or one group in each partition.",
            {"oneOf": [one, whole(groups=array(of_all), **PAGE, **SILENT)]},
            (
                parameter("group", TEXT, "The one group."),
                parameter("topic", array(TEXT), "Topics whose partitions have rows anyhow, with group."),
                parameter("sort", sorts, "What comes first, without group."),
                limit_of(100, 10_000),
                OFFSET,
            ),
            errors=("400", "404"),
        ),
        ("post", "/v1/groups/reset"): Route(
            "resetOffsets",
            "Reset the committed offsets of a group without members.",
            ref("ResetPlan"),
            body="Reset",
            errors=("400", "404", "409", "415"),
        ),
        ("post", "/v1/groups/reset/plan"): Route(
            "planReset",
            "Return what a reset of offsets would do.",
            ref("ResetPlan"),
            body="Reset",
            errors=("400", "404", "409", "415"),
        ),
        ("get", "/v1/groups/waiting"): Route(
            "listRebalancesInProgress",
            "List the rebalances that have not ended, and whom they wait for.",
            opened({"groups": array(ref("Waiting")), **PARTIAL}, *PARTIAL),
        ),
        ("get", "/v1/rebalances"): Route(
            "listRebalances",
            "List the last rebalances of all groups, newest first.",
            whole(entries=array(ref("Rebalance")), more=BOOL, **PARTIAL),
            (_SINCE, limit_of(100, 1_000)),
            errors=("400",),
        ),
    }
