"""``/v1/topics/records``: records browsed and appended over HTTP, with real logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from muster.actors.log.format.compression import CODECS
from muster.actors.log.format.control import EndOfTransaction, control_batch
from muster.actors.log.format.records import Record, build_batch
from muster.gateway.attribution.verdict import Reason
from muster.gateway.http.groups import Failed
from muster.gateway.http.records import SHOWN_BYTES, SHOWN_HEADERS, read_page, shown, shown_bytes
from muster.gateway.security.authorization.authorizer import Authorizer
from muster.placement.view import Topic
from tests.gateway.administration.test_recorded import rows
from tests.gateway.apis.test_data_apis import produce
from tests.gateway.group_client import Fresh
from tests.gateway.http.test_group_changes import Post, get, post, sent
from tests.gateway.serving import Serving

__all__ = ["post", "rows"]
WRITE_TXN_MARKERS, ALTER_CLIENT_QUOTAS = 27, 49
FIRST_MS = 1_700_000_000_000


@pytest.fixture
def topic(full: Serving, fresh: Fresh) -> Topic:
    """Return a topic with one partition."""
    return full.create(fresh("t"), 1)


@pytest.fixture(autouse=True)
def without_acls(full: Serving) -> Iterator[None]:
    yield
    full.gateway.authorizer = None


def append(full: Serving, topic: Topic, *values: bytes | None, at_ms: int = FIRST_MS, codec: int = 0) -> None:
    """Append one batch."""
    batch = bytes(build_batch([(None, value) for value in values], at_ms, 0, -1, codec))
    produce(full.client, (topic, 0, batch))


def browse(full: Serving, topic: Topic, **query: Any) -> dict[str, Any]:
    status, found = browsed(full, topic, **query)
    assert status == 200, found
    return found


def browsed(full: Serving, topic: Topic, **query: Any) -> tuple[int, dict[str, Any]]:
    parameters = "&".join(f"{name}={value}" for name, value in query.items())
    return get(full, f"/v1/topics/records?topic={quote(topic.name)}&partition=0&{parameters}")


def offsets(found: dict[str, Any]) -> list[int]:
    return [record["offset"] for record in found["records"]]


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec(full: Serving, topic: Topic, codec: int) -> None:
    headers = ((b"trace", b"1"), (b"none", None))
    batch = build_batch([(b"k", b'{"a": 1}\n'), (None, b"\x00\xff")], FIRST_MS, 0, -1, codec, headers=headers)
    produce(full.client, (topic, 0, bytes(batch)))
    found = browse(full, topic, **{"from": "earliest"})
    names = [["trace", {"text": "1", "size_bytes": 1}], ["none", None]]
    rows = [
        ({"text": "k", "size_bytes": 1}, {"text": '{"a": 1}\n', "size_bytes": 9}, 20),
        (None, {"hex": "00ff", "size_bytes": 2}, 12),
    ]
    assert found["records"] == [
        {"offset": number, "timestamp_ms": FIRST_MS, "key": key, "value": value, "headers": names, "size_bytes": size}
        for number, (key, value, size) in enumerate(rows)
    ]
    assert [found[name] for name in ("start_offset", "end_offset", "next_offset")] == [0, 2, 2]
    assert found["isolation"] == "read_uncommitted"


def test_pages_from_an_offset_a_time_and_the_end(full: Serving, topic: Topic) -> None:
    for number in range(5):
        append(full, topic, b"a", b"b", at_ms=FIRST_MS + number)
    assert offsets(browse(full, topic)) == [*range(10)]
    assert offsets(browse(full, topic, limit=3)) == [7, 8, 9]
    first = browse(full, topic, offset=1, limit=4)
    assert (offsets(first), first["next_offset"]) == ([1, 2, 3, 4], 5)
    assert offsets(browse(full, topic, offset=first["next_offset"], limit=4)) == [5, 6, 7, 8]
    assert offsets(browse(full, topic, time_ms=FIRST_MS + 3)) == [6, 7, 8, 9]
    for beyond in ({"time_ms": FIRST_MS + 9}, {"offset": 10}, {"offset": 99}):
        found = browse(full, topic, **beyond)
        assert (found["records"], found["next_offset"], found["end_offset"]) == ([], 10, 10)


def test_an_empty_partition(full: Serving, topic: Topic) -> None:
    for query in ({}, {"from": "earliest"}, {"offset": 0}):
        found = browse(full, topic, **query)
        assert (found["records"], found["next_offset"]) == ([], 0)


def test_no_more_is_read_than_max_bytes_but_one_record(full: Serving, topic: Topic) -> None:
    for number in range(6):
        append(full, topic, bytes([number]) * 1_500)
    found = browse(full, topic, offset=0, max_bytes=4_000)
    assert (offsets(found), found["next_offset"]) == ([0, 1], 2)
    assert offsets(browse(full, topic, offset=2, max_bytes=1_024)) == [2]
    assert offsets(browse(full, topic, max_bytes=4_000))[-1] == 5
    assert offsets(browse(full, topic, max_bytes=1_024)) == [5]


def test_the_size_is_that_after_decompression(full: Serving, topic: Topic) -> None:
    append(full, topic, *[b"x" * 1_000] * 20, codec=4)
    found = browse(full, topic, offset=0, max_bytes=4_000)
    assert (offsets(found), found["next_offset"]) == ([0, 1, 2, 3], 4)
    assert offsets(browse(full, topic, offset=4, max_bytes=2_000)) == [4, 5]


def test_large_records_are_read_from_their_files(full: Serving, topic: Topic) -> None:
    """They are in files, whose memory is given back before the response is read."""
    for number in range(3):
        append(full, topic, bytes([number]) * 200_000)
    found = browse(full, topic)
    assert offsets(found) == [0, 1, 2]
    for number, record in enumerate(found["records"]):
        value = record["value"]
        assert (value["size_bytes"], value["cut"]) == (200_000, True)
        assert value["hex"] == f"{number:02x}" * SHOWN_BYTES


def test_what_is_read_is_nobodys_and_not_unattributed(full: Serving, topic: Topic) -> None:
    append(full, topic, b"a", b"b")
    before = full.gateway.account.snapshot()
    browse(full, topic, **{"from": "earliest"})
    books = full.gateway.account.snapshot()
    place = topic.name, 0
    assert books.reasons[Reason.INTERNAL, *place].messages == 2
    assert books.sent[place].bytes == books.reasons[Reason.INTERNAL, *place].bytes > 0
    assert (books.groups, books.pending) == (before.groups, before.pending)


def limit_fetches(full: Serving, bytes_per_s: float | None) -> None:
    """Set, or remove, the quota of all client ids."""
    change = {"key": "consumer_byte_rate", "value": bytes_per_s or 0.0, "remove": bytes_per_s is None}
    entity = [{"entity_type": "client-id", "entity_name": None}]
    body = {"entries": [{"entity": entity, "ops": [change]}], "validate_only": False}
    (altered,) = full.exchange(ALTER_CLIENT_QUOTAS, 1, body).entries
    assert altered.error_code == 0


def test_quotas_of_the_caller_apply(full: Serving, topic: Topic) -> None:
    for _ in range(3):
        append(full, topic, b"x" * 5_000)
    limit_fetches(full, 500.0)
    try:
        assert offsets(browse(full, topic, offset=0, limit=1)) == [0]
        status, refused = browsed(full, topic, offset=1, limit=1)
        assert (status, "quota" in refused["error"]) == (429, True)
    finally:
        limit_fetches(full, None)
    assert offsets(browse(full, topic, offset=1, limit=1)) == [1]


@pytest.mark.parametrize(
    "query",
    [
        {"offset": "x"},
        {"offset": -1},
        {"from": "middle"},
        {"offset": 1, "time_ms": 1},
        {"limit": 501},
        {"limit": 0},
        {"max_bytes": 1},
        {"offset": "9" * 19},
    ],
)
def test_a_wrong_query_is_400(full: Serving, topic: Topic, query: dict[str, Any]) -> None:
    assert browsed(full, topic, **query)[0] == 400


def test_what_does_not_exist_is_404(full: Serving, topic: Topic) -> None:
    assert get(full, "/v1/topics/records?topic=none&partition=0")[0] == 404
    assert get(full, f"/v1/topics/records?topic={topic.name}&partition=7")[0] == 404


def test_without_the_right_nothing_is_read_or_appended(full: Serving, topic: Topic, post: Post) -> None:
    append(full, topic, b"a")
    full.gateway.authorizer = Authorizer((), set(), allow_everyone=False)
    assert browsed(full, topic)[0] == 403
    assert post("/v1/topics/records", topic=topic.name, value={"text": "b"})[0] == 403
    full.gateway.authorizer = None
    assert offsets(browse(full, topic)) == [0]


def test_a_record_is_appended(full: Serving, fresh: Fresh, post: Post) -> None:
    topic = full.create(fresh("t"), 3)
    body = {"key": {"text": "k"}, "value": {"hex": "00ff"}, "headers": [["a", {"text": "ü"}], ["b", None]]}
    status, done = post("/v1/topics/records", topic=topic.name, partition=None, **body)
    assert status == 200, done
    assert post("/v1/topics/records", topic=topic.name, **body)[1] == {**done, "offset": 1}
    found = get(full, f"/v1/topics/records?topic={topic.name}&partition={done['partition']}")[1]
    assert [record["value"]["hex"] for record in found["records"]] == ["00ff"] * 2
    assert found["records"][0]["headers"] == [["a", {"text": "ü", "size_bytes": 2}], ["b", None]]
    status, empty = post("/v1/topics/records", topic=topic.name, partition=2)
    assert (status, empty["partition"]) == (200, 2)


def test_what_cannot_be_appended_is_refused(full: Serving, topic: Topic, post: Post, fresh: Fresh) -> None:
    assert post("/v1/topics/records", topic=fresh("none"), value={"text": "a"})[0] == 404
    assert post("/v1/topics/records", topic=topic.name, partition=1)[0] == 404
    small = full.create(fresh("t"), 1, max_message_bytes="100")
    status, refused = post("/v1/topics/records", topic=small.name, value={"text": "x" * 200})
    assert (status, "MESSAGE_TOO_LARGE" in refused["error"]) == (409, True)
    for wrong in ({"text": "a", "hex": "00"}, {}, {"hex": "0"}, {"text": 1}, "a"):
        assert post("/v1/topics/records", topic=topic.name, value=wrong)[0] == 400
    assert browse(full, topic)["records"] == []


def test_text_that_is_no_unicode_is_refused(full: Serving, topic: Topic, post: Post) -> None:
    status, refused = post("/v1/topics/records", topic=topic.name, value={"text": "\ud800"})
    assert (status, set(refused)) == (400, {"error"})


def test_nothing_is_appended_while_changes_are_off(full: Serving, topic: Topic) -> None:
    status, refused = sent(full, "/v1/topics/records", {"topic": topic.name, "value": {"text": "a"}})
    assert (status, "http.changes.enable=true" in refused["error"]) == (403, True)
    assert browse(full, topic)["records"] == []


def test_the_audit_log_says_where_but_not_what(full: Serving, topic: Topic, post: Post, rows: list[Any]) -> None:
    for body in ({"value": {"text": "a secret"}}, {"partition": 9}):
        post("/v1/topics/records", topic=topic.name, **body)
    assert sent(full, "/v1/topics/records", {"topic": topic.name}, "text/plain")[0] == 415
    names = ("api", "resource_type", "resource", "error", "detail", "door")
    same = "POST /v1/topics/records", "TOPIC"
    assert [tuple(row[name] for name in names) for row in rows] == [
        (*same, topic.name, "200", "partition 0, offset 0", "http"),
        (*same, topic.name, "404", None, "http"),
        (*same, None, "415", None, "http"),
    ]


def test_produce_is_sent_once(full: Serving, topic: Topic, post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is down: the error passes by itself, and yet nothing is repeated."""
    assert full.actors is not None
    down: list[Any] = []

    async def nobody(*arguments: Any, **options: Any) -> None:
        down.append(arguments)

    monkeypatch.setattr(full.gateway.forwarder, "log", lambda index: None)
    monkeypatch.setattr(full.gateway.forwarder, "channel", lambda owner: None)
    monkeypatch.setattr(full.gateway.forwarder, "soon", nobody)
    status, refused = post("/v1/topics/records", topic=topic.name, value={"text": "a"})
    assert (status, "was not appended" in refused["error"]) == (503, True), refused
    monkeypatch.undo()
    assert browse(full, topic)["records"] == []


def test_the_last_records_are_found_behind_control_records(full: Serving, topic: Topic) -> None:
    """The page reads further back, as far as it has to."""
    append(full, topic, *[b"a"] * 10)
    for epoch in range(5):
        marker = {"producer_id": 7, "producer_epoch": epoch, "transaction_result": True, "coordinator_epoch": 0}
        topics = [{"name": topic.name, "partition_indexes": [0]}]
        written = full.exchange(WRITE_TXN_MARKERS, 1, {"markers": [{**marker, "topics": topics}]})
        assert written.markers[0].topics[0].partitions[0].error_code == 0
    found = browse(full, topic, limit=2)
    assert (offsets(found), found["end_offset"], found["next_offset"]) == ([8, 9], 15, 15)
    assert browse(full, topic, offset=11)["records"] == []


def test_control_batches_are_left_out() -> None:
    data = bytes(build_batch([(None, b"a")], FIRST_MS, 4, 0))
    marker = bytes(control_batch(7, 0, EndOfTransaction(True, 0), FIRST_MS, 5, 0))
    page = read_page(data + marker, 4, 10, 100)
    assert ([record.offset for record in page.records], page.next_offset) == ([4], 6)


def test_damage_is_named() -> None:
    batch = bytes(build_batch([(None, b"abc")], FIRST_MS, 0, 0))
    with pytest.raises(Failed, match="cannot be read"):
        read_page(batch[:-1], 0, 10, 100)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, None),
        (b"", {"text": "", "size_bytes": 0}),
        ("ü\t\r\n".encode(), {"text": "ü\t\r\n", "size_bytes": 5}),
        (b"a\x00", {"hex": "6100", "size_bytes": 2}),
        (b"\x1b[31m", {"hex": "1b5b33316d", "size_bytes": 5}),
        ("\x85".encode(), {"hex": "c285", "size_bytes": 2}),
        (b"\xff", {"hex": "ff", "size_bytes": 1}),
    ],
)
def test_text_or_hex(content: bytes | None, expected: dict[str, Any] | None) -> None:
    assert shown_bytes(content) == expected


def test_a_cut_splits_no_character() -> None:
    found = shown_bytes(b"a" + "ü".encode() * SHOWN_BYTES)
    assert found is not None
    assert (found["text"], found["cut"]) == ("a" + "ü" * (SHOWN_BYTES // 2 - 1), True)
    broken = shown_bytes(b"a" * (SHOWN_BYTES - 2) + b"\xff" * 4)
    assert broken is not None
    assert "hex" in broken


def test_headers_beyond_a_hundred_are_counted() -> None:
    found = shown(Record(1, -1, None, None, ((b"h\xff", b""),) * (SHOWN_HEADERS + 3)))
    assert (len(found["headers"]), found["headers_left_out"], found["timestamp_ms"]) == (SHOWN_HEADERS, 3, None)
    assert found["headers"][0][0] == "h\\xff"
    assert json.dumps(found)
