"""The routes of the cluster: its gateways, nodes and actors, and what they report."""

from __future__ import annotations

from muster.gateway.http.openapi.parts import (
    ANY,
    BOOL,
    COUNT,
    NUMBER,
    TEXT,
    TIME,
    Json,
    Route,
    Routes,
    array,
    described,
    map_of,
    opened,
    or_null,
    parameter,
    ref,
    row_of,
    whole,
)


def schemas() -> Json:
    """Return the schemas that they refer to."""
    return {"NodeId": whole(node_id=TEXT)}


def routes() -> Routes:
    """Return the routes by method and path."""
    gateway = whole(id=COUNT, host=TEXT, port=COUNT, node_id=TEXT, rack=or_null(TEXT), http=or_null(TEXT))
    audited = whole(group=TEXT, topic=TEXT, partition=COUNT, implied_bytes=COUNT, attributed_bytes=COUNT)
    by_topic = array(row_of(TEXT, COUNT, COUNT))
    actor = opened(
        {"name": TEXT, "state": TEXT, "pid": or_null(COUNT), "node_id": or_null(TEXT), "restarts": or_null(COUNT)},
        *("name", "state"),
    )
    node = opened({"node_id": TEXT, "address": TEXT, "state": TEXT, "actors": ANY}, "node_id", "state")
    return {
        ("get", "/v1/attribution"): Route(
            "sumAttribution",
            "Sum up the bytes that this gateway sent and took, by topic and by whom they were for.",
            whole(
                gateway=COUNT,
                at_ms=TIME,
                incarnation=described(TEXT, "Changes when the sums begin anew."),
                groups=described(
                    array(row_of(TEXT, TEXT, TEXT, COUNT, COUNT)), "Group, topic, evidence, messages, bytes."
                ),
                reasons=described(array(row_of(TEXT, TEXT, COUNT, COUNT)), "Reason, topic, messages, bytes."),
                pending=described(by_topic, "Topic, messages, bytes: not decided yet."),
                removed=described(by_topic, "Of groups that are gone."),
                produced=described(by_topic, "Appended."),
                principals=described(
                    array(row_of(TEXT, TEXT, COUNT, COUNT)),
                    "Principal, topic, messages, bytes: the fetched bytes once more, by who fetched them.",
                ),
                hidden_bytes=described(COUNT, "Fetched bytes whose group or topic the caller may not see."),
            ),
        ),
        ("get", "/v1/audit"): Route(
            "showAudit",
            "Show the last round of the audit of the attribution.",
            whole(
                interval_ms=COUNT,
                at_ms=or_null(TIME),
                rounds=COUNT,
                incomplete_rounds=COUNT,
                left_out=COUNT,
                rows=array(audited),
            ),
            (parameter("group", TEXT, "The one group."),),
        ),
        ("get", "/v1/cluster"): Route(
            "showCluster",
            "Say which cluster this is, and what the caller may do.",
            whole(
                cluster_id=or_null(TEXT),
                version=TEXT,
                gateways=array(gateway),
                principal=TEXT,
                may_change=BOOL,
                fault_injection=BOOL,
                may_fault=BOOL,
                console=or_null(TEXT),
            ),
        ),
        ("get", "/v1/mapping"): Route(
            "showMapping",
            "Show what the reconciler of the mapping in ZooKeeper has found and repaired.",
            whole(
                rounds=COUNT,
                skipped_rounds=COUNT,
                failed_rounds=COUNT,
                last_round_took_ms=NUMBER,
                divergence=map_of(COUNT),
                divergent_for_ms=or_null(COUNT),
                repairs=map_of(COUNT),
                suspects=COUNT,
                dry_run=BOOL,
                zookeeper_connected=BOOL,
                trouble=or_null(TEXT),
                registrations=COUNT,
            ),
        ),
        ("post", "/v1/nodes/drain"): Route(
            "drainNode",
            "Have all of Muster's actors moved off a node.",
            ref("NodeId"),
            body="Node",
            errors=("400", "404", "409", "415"),
        ),
        ("post", "/v1/nodes/undrain"): Route(
            "undrainNode",
            "Let a node have actors again.",
            ref("NodeId"),
            body="Node",
            errors=("400", "404", "409", "415"),
        ),
        ("get", "/v1/prometheus/targets"): Route(
            "listTargets",
            "List the gateways for Prometheus' http_sd_configs.",
            array(whole(targets=array(TEXT), labels=map_of(TEXT))),
        ),
        ("get", "/v1/status"): Route(
            "showStatus",
            "Show nodes and actors.",
            opened({"nodes": array(node), "actors": array(actor)}, "nodes", "actors"),
        ),
        ("get", "/v1/openapi.json"): Route("describe", "Return this description.", {"type": "object"}),
    }
