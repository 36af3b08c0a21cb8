"""The routes of topics and their records."""

from __future__ import annotations

from muster.gateway.http.openapi.parts import (
    BOOL,
    COUNT,
    LAG,
    OFFSET,
    PAGE,
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
    opened,
    or_null,
    parameter,
    ref,
    row_of,
    whole,
)

_TOPIC = parameter("topic", TEXT, "Name of the topic.", required=True)


def schemas() -> Json:
    """Return the schemas that they refer to."""
    return {
        "Shown": described(
            {
                "oneOf": [
                    {"type": "null"},
                    opened({"text": TEXT, "size_bytes": COUNT, "cut": BOOL}, "text", "size_bytes"),
                    opened({"hex": TEXT, "size_bytes": COUNT, "cut": BOOL}, "hex", "size_bytes"),
                ]
            },
            "A key, value or header: text, or hex if it is none. cut: it is only the first 64 KiB.",
        ),
    }


def routes() -> Routes:
    """Return the routes by method and path."""
    sizes = {"messages": or_null(COUNT), "size_bytes": or_null(COUNT)}
    topic = {"topic": TEXT, "topic_id": TEXT, "internal": BOOL}
    offsets = {"start_offset": or_null(COUNT), "end_offset": or_null(COUNT)}
    partition = whole(partition=COUNT, leader=or_null(COUNT), log=TEXT, **offsets, **sizes)
    reader = whole(group=TEXT, state=TEXT, members=COUNT, partitions=COUNT, **LAG)
    header = row_of(TEXT, ref("Shown"))
    record = {"offset": COUNT, "timestamp_ms": or_null(WHOLE), "key": ref("Shown"), "value": ref("Shown")}
    return {
        ("get", "/v1/topics"): Route(
            "listTopics",
            "List topics by name, with the number of groups that read them.",
            whole(
                topics=array(whole(**topic, partitions=COUNT, **sizes, groups=COUNT, behind=COUNT)), **PAGE, **SILENT
            ),
            (limit_of(100, 1_000), OFFSET),
            errors=("400",),
        ),
        ("get", "/v1/topics/describe"): Route(
            "describeTopic",
            "Describe the partitions of a topic, what is set on it, and the groups that read it.",
            whole(
                **topic,
                partitions=array(partition),
                config={"type": ["object", "null"], "additionalProperties": TEXT},
                groups=described(array(reader), "The thousand that are furthest behind."),
                groups_total=COUNT,
                **SILENT,
            ),
            (_TOPIC,),
            errors=("400", "404"),
        ),
        ("get", "/v1/topics/records"): Route(
            "listRecords",
            "List records of a partition, from an offset, a time, the beginning, or the last ones.",
            whole(
                topic=TEXT,
                partition=COUNT,
                isolation=TEXT,
                start_offset=COUNT,
                end_offset=COUNT,
                next_offset=COUNT,
                records=array(whole(**record, headers=array(header), size_bytes=COUNT)),
            ),
            (
                _TOPIC,
                parameter("partition", {**COUNT, "default": 0}, "Number of the partition."),
                parameter("offset", COUNT, "First offset."),
                parameter("time_ms", TIME, "Time of the first record."),
                parameter("from", {"enum": ["earliest", "latest"], "default": "latest"}, "In place of these."),
                limit_of(50, 500),
                parameter("max_bytes", COUNT, "How much is read."),
            ),
            errors=("400", "404", "409", "429", "500"),
        ),
        ("post", "/v1/topics/records"): Route(
            "appendRecord",
            "Append a record to a topic.",
            whole(topic=TEXT, partition=COUNT, offset=COUNT),
            body="NewRecord",
            errors=("400", "404", "409", "415"),
        ),
    }
