"""The options and files of reset-offsets."""

from __future__ import annotations

import contextlib
import json
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.gateway.cli.groups import reset_options
from muster.gateway.cli.groups.reset_options import moment_ms, offsets_of
from muster.gateway.cli.times import duration_ms
from muster.gateway.client.groups import reset

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["t"], {"t": None}),
        (["t:0"], {"t": [0]}),
        (["t:3,1,2", "t:1,7", "u"], {"t": [1, 2, 3, 7], "u": None}),
        (["t:1", "t"], {"t": None}),
        (["t", "t:1"], {"t": None}),
        ([], {}),
    ],
)
def test_topics(texts: list[str], wanted: reset.Wanted) -> None:
    assert reset.topics(texts) == wanted


@pytest.mark.parametrize("text", ["", ":1", "t:", "t:a", "t:1,", "t:-1", "t:1;2", "t:1:2", "t:٣", "t:9999999999"])
def test_what_is_no_topic(text: str) -> None:
    with pytest.raises(ValueError, match="is not TOPIC"):
        reset.topics([text])


@pytest.mark.parametrize(
    ("text", "utc", "has_zone"),
    [
        ("2026-01-31T09:30:00Z", "2026-01-31T09:30:00", True),
        ("2026-01-31T09:30:00.123+05:30", "2026-01-31T04:00:00.123", True),
        ("2026-01-31T09:30:00.123", "2026-01-31T09:30:00.123", False),
        ("2026-01-31", "2026-01-31T00:00:00", False),
        ("20260131T0930Z", "2026-01-31T09:30:00", True),
        ("1970-01-01T00:00:00", "1970-01-01T00:00:00", False),
        ("9999-12-31T23:59:59.999-23:59", "9999-12-31T23:59:59.999", True),
    ],
)
def test_times(text: str, utc: str, has_zone: bool) -> None:
    expected = round(datetime.fromisoformat(utc).replace(tzinfo=UTC).timestamp() * 1000)
    if text.endswith("-23:59"):
        expected += (23 * 60 + 59) * 60_000
    assert moment_ms(text) == (expected, has_zone)


def test_without_a_zone_it_is_utc_wherever_this_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert moment_ms("1970-01-01T01:00") == (HOUR_MS, False)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-13-01", "09:30", "1969-12-31", "0001-01-01T00:00+23:59", "1e5"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"ISO 8601|before 1970"):
        moment_ms(text)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("PT1H30M", 90 * 60_000),
        ("P1DT12H", 36 * HOUR_MS),
        ("P2W", 14 * 24 * HOUR_MS),
        ("PT0.5S", 500),
        ("pt1,25s", 1250),
        ("PT0S", 0),
        ("1h30m", 90 * 60_000),
        ("90s", 90_000),
        ("1.5h", 90 * 60_000),
        ("2w1d", 15 * 24 * HOUR_MS),
        ("250ms", 250),
        ("1H", HOUR_MS),
    ],
)
def test_durations(text: str, expected_ms: int) -> None:
    assert duration_ms(text) == expected_ms


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "P1M", "P1Y", "-PT1H", "1", "h", "1 h", "1h 30", "PT1.5H", "1e3s", "9" * 200 + "s"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        duration_ms(text)


EXPECTED = {("a", 0): 5, ("b", 11): 1 << 62}


@pytest.mark.parametrize(
    "text",
    [
        f"a,0,5\nb,11,{1 << 62}\n",
        f'"a",0,5\r\n"b",11,{1 << 62}',  # quoted as by kafka-consumer-groups
        f"\n topic, partition, offset\n a , 0 , 5 \n\n b,11,{1 << 62}\n\n",
        f"g,a,0,5\nother,a,0,7\ng,b,11,{1 << 62}",
        f'[{{"topic":"a","partition":0,"offset":5}}, {{"topic":"b","partition":11,"offset":"{1 << 62}","note":3}}]',
        json.dumps(
            {"group": "g", "offsets": [{"topic": t, "partition": p, "offset": o} for (t, p), o in EXPECTED.items()]}
        ),
    ],
)
def test_files(text: str) -> None:
    assert offsets_of(text, "g") == EXPECTED


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no offsets for group g"),
        ("other,a,0,5", "no offsets for group g"),
        ("a,0", "line 1 is not topic,partition,offset"),
        ("a,0,5\na,1,x", "line 2: offset 'x'"),
        ("a,0,5\na,-1,5", "line 2: partition '-1'"),
        ("a,0,-5", "line 1: offset '-5'"),
        ("a,0,9223372036854775808", "line 1: offset"),
        ("a,2147483648,1", "line 1: partition"),
        ("a,0,5\na,0,6", "line 2: partition 0 of a comes twice"),
        (",0,5", "line 1: the topic is missing"),
        ('"a,0,5', "line 1"),
        ("[", "begins as JSON"),
        ("[" * 100_000, "begins as JSON"),
        ("[1]", "entry 1 is not an object"),
        ('{"offsets": 5}', "has to be a list"),
        ('[{"topic":"a","partition":0}]', "entry 1: offset None"),
        ('[{"topic":"a","partition":true,"offset":1}]', "entry 1: partition True"),
        ('[{"topic":"a","partition":0,"offset":1.5}]', "entry 1: offset 1.5"),
    ],
)
def test_files_that_make_no_sense(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        offsets_of(text, "g")


@given(
    st.dictionaries(
        st.tuples(st.text("abc._-", min_size=1), st.integers(0, (1 << 31) - 1)),
        st.integers(0, (1 << 63) - 1),
        min_size=1,
    )
)
def test_what_is_exported_can_be_read(offsets: dict[tuple[str, int], int]) -> None:
    assert offsets_of(reset_options.to_csv(offsets), "g") == offsets


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (
        lambda text: offsets_of(text, "g"),
        moment_ms,
        duration_ms,
        lambda text: reset.topics([text]),
    ):
        with contextlib.suppress(ValueError):
            parse(text)
