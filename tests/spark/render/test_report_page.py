"""The page of results: first what must be done, in words, a screen per question, the rest folded. No Spark."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pytest

from muster.actors.runtime.terminal import printable
from muster.spark.jobs.job import Options, Plot
from muster.spark.render import plots
from muster.spark.render.page_tables import shared_beginnings, shortened
from muster.spark.render.report_page import LEAD_ROWS, render_results
from muster.spark.render.screens import SCREENS
from muster.spark.render.screens.screen import Level, Screen
from muster.spark.result import JobResult, Plotted, Shown
from muster.spark.units import cell_in, number_ticks, time_ticks
from tests.spark.render.pages import result, section, standing
from tests.spark.rows import NOON


def screen(job: str, *sections: Shown) -> Screen:
    (job_screen,) = [each for each in SCREENS if each.job == job]
    return job_screen.screen(result(job, *sections))


@pytest.mark.parametrize(
    ("value", "column", "said"),
    [
        (3 << 30, "bytes", "3.0 GiB"),
        (1023, "lost_bytes", "1,023 B"),
        (2048.0, "rate_bytes_per_second", "2.0 KiB/s"),
        (3725.4, "lag_seconds", "1 h 2 min"),
        (18.737, "lag_seconds", "18.7 s"),
        (0.25, "lag_seconds", "0.25 s"),
        (90_000, "lost_partition_seconds", "90,000"),
        (0.0312, "share", "3.1%"),
        (12_345, "messages", "12,345"),
        (None, "bytes", "-"),
    ],
)
def test_numbers_have_the_units_of_their_columns(value: Any, column: str, said: str) -> None:
    assert cell_in(value, column) == said


def test_the_page_begins_with_what_must_be_done_and_leaves_out_groups_that_ended_on_purpose() -> None:
    steps = section("steps", *({"at": NOON + timedelta(hours=hours), "bytes": 1} for hours in (0, 36)))
    steps = replace(steps, plot=Plot(kind="lines", x=("at",), y="bytes", y_label="bytes"))
    moved = JobResult(job="failover", title="failover", sections=[section("open"), section("longest")])
    ended = result("lag", section("groups", standing("cron", "ENDED", 50), standing("archive")))
    options = Options(now=NOON + timedelta(hours=37), end=NOON + timedelta(hours=37))

    def top(*results: JobResult) -> str:
        return html.unescape(render_results(results, options).split("</header>")[0])

    well = top(moved, ended)
    assert "<title>Consumer groups: Nothing to do</title>" in well
    assert '<p class="verdict">Nothing to do</p>' in well
    assert "No group falls behind: 2 groups." in well
    assert "STOPPED" not in well
    assert well.index("Who is behind") < well.index("What was down")  # in the order of the questions
    stopped = result("lag", section("groups", standing("cron", "ENDED", 50), standing("crashed", "STOPPED", 1200)))
    page = render_results(
        [stopped, moved, replace(result("other"), sections=[steps])], options, ["job placement: torn"]
    )
    header = html.unescape(page.split("</header>")[0])
    assert '<p class="verdict">1 thing to act on, 1 question not answered</p>' in header
    assert "1 of 2 groups gets no further: crashed (STOPPED, 1,200 behind)." in header
    assert "rows from 2026-05-01 12:00:00 to 2026-05-03 00:00:00" in header
    assert "job placement: torn" in header


def test_the_title_says_that_it_is_early() -> None:
    rows = [{"at": NOON + timedelta(minutes=minute), "group": "billing", "bytes": 1} for minute in range(11)]
    early = html.unescape(page_of(drawn_section("lines", rows[:3]), now=NOON + timedelta(minutes=3)))
    assert '<p class="verdict">Nothing to do so far, after 2 min 0 s</p>' in early
    late = page_of(drawn_section("lines", rows), now=NOON + timedelta(minutes=11))
    assert '<p class="verdict">Nothing to do</p>' in late


def test_tables_that_ended_long_ago_are_said_to_have() -> None:
    rows = [{"at": NOON + timedelta(minutes=minute), "group": "billing", "bytes": 1} for minute in range(3)]
    page = page_of(drawn_section("lines", rows), now=NOON + timedelta(days=2))
    assert "The newest row is 1 d 23 h old (2026-05-01 12:02:00): is the cluster up?" in page
    assert "newest row" not in page_of(drawn_section("lines", rows), now=NOON + timedelta(minutes=9))


def test_the_page_names_the_cluster_and_when_it_was_stopped() -> None:
    lag = result("lag", section("groups", standing("billing")))
    stopped = Options(now=NOON, stopped=NOON, cluster="9TCQLAVUS5KmDg3SODEYDA", timezone="Europe/Berlin")
    header = render_results([lag, result("failover")], stopped).split("</header>")[0]
    assert "<h1>Consumer groups of cluster 9TCQLAVUS5KmDg3SODEYDA</h1>" in header
    assert "Muster was stopped at 2026-05-01 14:00:00: all of this is as of then." in header
    assert "Muster was stopped" not in render_results([lag], replace(stopped, now=NOON - timedelta(hours=1)))


def test_who_is_behind_and_will_they_catch_up() -> None:
    groups = [
        standing("crashed", "STOPPED", None, lost_messages=7),
        standing("slow", "WARNING", 400),
        standing("slower", "OK", 300, consumed_per_second=1.0, falls_behind=True),
        standing("catches up", "OK", 200, catch_up_seconds=80.4),
        standing("cron", "ENDED", 900, lost_messages=5),
        standing("keeps up", "OK", 3, consumed_per_second=9.9, lag_seconds=0.4),
        standing("well"),
    ]
    found = screen("lag", section("groups", *groups))
    assert found.level == Level.ACT
    assert found.summary == (
        "1 of 7 groups gets no further: crashed (STOPPED). 2 fall behind: slow (400 behind) and slower (300 behind)."
    )
    assert found.more == [
        "Deleted before they were consumed: crashed 7 messages.",
        "ENDED, its members left when they had read everything older than 100 s: cron.",
    ]
    assert [(row["group"], row["catches_up"]) for row in found.rows] == [
        ("crashed", "never"),
        ("slow", "not known"),
        ("slower", "never"),
        ("catches up", "1 min 20 s"),
        ("keeps up", "keeps up"),
        ("cron", "ended"),
        ("well", "now"),
    ]
    assert screen("lag", section("groups", *groups[1:])).level == Level.LOOK
    left = standing("closed", "REWIND", 1200, left=True)
    closed = screen("lag", section("groups", left, standing("well")))
    sentence = "Left by their members before the end of their topics: closed (REWIND, 1,200 behind)."
    assert (closed.level, closed.summary) == (Level.LOOK, sentence)
    assert [row["group"] for row in screen("lag", section("groups", left, *groups[:2])).rows] == [
        "crashed",
        "closed",
        "slow",
    ]
    assert screen("lag", section("groups", *groups[3:])).level == Level.WELL
    assert screen("lag", section("groups", standing("too late", lost_messages=1))).level == Level.LOOK
    assert screen("lag", section("groups")).summary == "No group has committed anything."


def test_a_group_without_members_does_not_keep_up() -> None:
    """Until its oldest unread message is 100 s old it may be only restarting."""
    young = standing("readers", lag=41, lag_seconds=12.0, without_members=True, left=True)
    found = screen("lag", section("groups", young, standing("well")))
    sentence = "1 of 2 groups has no members and is 41 behind: readers."
    assert (found.level, found.summary) == (Level.INFO, sentence)
    assert [row["catches_up"] for row in found.rows] == ["never without members", "now"]
    old = young | {"lag_seconds": 100.0}
    assert screen("lag", section("groups", old, standing("well"))).level == Level.LOOK
    both = screen("lag", section("groups", old, young | {"group": "writers"}, standing("slow", "WARNING", 400)))
    assert both.summary == (
        "1 of 3 groups falls behind: slow (400 behind). "
        "2 of 3 groups have no members and are 82 behind: readers and writers."
    )


def test_what_was_down() -> None:
    outage = {"actor": "offsets-9", "seconds": 1.25, "fault": None, "began": NOON, "open_seconds": None}
    assert screen("failover", section("longest", outage)).summary == (
        "1 outage ended; the longest: offsets-9 did not serve for 1.2 s."
    )
    down = {**outage, "actor": "log-1", "seconds": None, "open_seconds": 75.2}
    found = screen("failover", section("longest", {**outage, "fault": "kill"}), section("open", down))
    assert found.level == Level.ACT
    assert found.summary == (
        "1 actor does not serve: log-1 for 1 min 15 s. "
        "1 outage ended; the longest: offsets-9 did not serve for 1.2 s, after a kill."
    )
    assert [(row["actor"], row["state"]) for row in found.rows] == [("log-1", "DOWN"), ("offsets-9", "serves")]
    assert screen("failover").summary == "Nothing was down."


def test_who_causes_rebalances() -> None:
    def of(group: str, count: int) -> dict[str, Any]:
        return {"group": group, "rebalances": count, "lost_partition_seconds": 9.0, "cause": "member left"}

    triggered_by = {"group": "billing", "group_instance_id": None, "client_id": None, "host": "::1", "rebalances": 2}
    triggered_by |= {"waited_rebalances": 0, "waited_seconds": None}
    groups = section("groups", of("billing", 9), of("calm", 1))
    triggering_members = section("culprits", {**triggered_by, "lost_partition_seconds": None})
    calm = screen("rebalances", groups, triggering_members)
    assert (calm.level, calm.summary) == (Level.WELL, "10 rebalances of 2 groups: no group too often.")
    helps = {"advice": "static membership", "setting": "group.instance.id", "evidence": "client x came back"}
    stormy = screen(
        "rebalances",
        groups,
        triggering_members,
        section("storms", {"group": "billing"}),
        section("advice", {"group": "billing", **helps}),
    )
    assert stormy.level == Level.LOOK
    assert stormy.summary == (
        "billing rebalances again and again. A client without an id at ::1 caused 2 rebalances of billing."
    )
    cheap = {**triggered_by, "client_id": "worker-d", "lost_partition_seconds": 9.0}
    waited = {"client_id": "worker-b", "rebalances": 0, "waited_rebalances": 1, "waited_seconds": 11.6}
    members = section("culprits", {**cheap, **waited, "lost_partition_seconds": 34.9}, cheap)
    hung = "billing waited 11.6 s for worker-b at ::1, which cost 35 partition-seconds."
    assert screen("rebalances", groups, members, section("storms", {"group": "billing"})).summary == (
        f"billing rebalances again and again. {hung} "
        "worker-d at ::1 caused 2 rebalances of billing, which cost 9 partition-seconds."
    )
    quiet = screen("rebalances", groups, members)
    assert (quiet.level, quiet.more, quiet.rows[0]["caused_by"]) == (Level.WELL, [hung], "worker-d")
    assert stormy.more == ["billing: static membership (group.instance.id). Client x came back."]
    assert [(row["caused_by"], row["advice"]) for row in stormy.rows] == [
        ("A client without an id", "static membership (group.instance.id)"),
        (None, None),
    ]


def test_who_reads_how_much() -> None:
    charge = section(
        "chargeback",
        {"group": None, "bytes": 1 << 30, "messages": 10, "cost": None},
        {"group": "billing", "bytes": 3 << 30, "messages": 30, "cost": None},
    )
    again = section("groups", {"group": "billing", "resent": 5, "distinct": 25})
    found = screen("consumption", charge, again)
    assert found.summary == ("4.0 GiB sent: 3.0 GiB to 1 group (billing 75%), 1.0 GiB to readers without a group.")
    assert [(row["group"], row["resent_percent"]) for row in found.rows] == [("billing", 20.0), ("(no group)", None)]
    assert screen("consumption", section("chargeback")).summary == "Nothing was sent."
    nobody, billing = ({"group": name, "bytes": 1 << 30, "messages": 10, "cost": None} for name in (None, "billing"))
    only = "1.0 GiB sent, all to readers without a group."
    assert screen("consumption", section("chargeback", nobody)).summary == only
    assert screen("consumption", section("chargeback", billing)).summary == "1.0 GiB sent to 1 group (billing 100%)."
    for rows, group_bytes, label in (
        ((nobody, billing), 1 << 30, "total: 1 group and (no group)"),
        ((billing,), 2 << 30, "total: 1 group"),
    ):
        sums = {"groups": 1, "group_bytes": group_bytes, "bytes": 2 << 30, "messages": 20, "cost": None}
        total = screen("consumption", section("chargeback", *rows, total=sums)).total
        assert total is not None
        assert total["group"] == label


def test_can_the_numbers_be_trusted() -> None:
    def of(reason: str | None, share: float | None) -> dict[str, Any]:
        return {"reason": reason, "bytes": 100, "messages": 1, "share": share}

    sure = screen("attribution", section("reasons", of(None, 0.9), of("no_group", 0.1), of("internal", None)))
    assert (sure.level, sure.summary) == (
        Level.WELL,
        "90.0% of the bytes have a group, 10.0% went to readers without one, none is in doubt.",
    )
    doubt = screen("attribution", section("reasons", of(None, 0.9), of("ambiguous", 0.1)))
    assert (doubt.level, doubt.summary) == (Level.LOOK, "90.0% of the bytes have a group, with 10.0% in doubt.")
    hole = {"gateway": 1, "share": 0.5, "began": NOON, "expected_share": None, "cause": "labels_lost"}
    jumped = screen("attribution", section("reasons", of(None, 1.0)), section("holes", hole))
    sentence = "Gateway 1 sent 50% without a group from 2026-05-01 12:00 on: labels lost."
    assert (jumped.level, jumped.summary) == (Level.LOOK, f"100.0% of the bytes have a group. {sentence}")
    twice = screen("attribution", section("reasons", of(None, 1.0)), section("holes", hole, hole))
    assert twice.more == [sentence, sentence]


def test_is_the_load_even() -> None:
    def of(level: str, load: str, name: str, over: float, places: int = 50, mean: float = 1024.0) -> dict[str, Any]:
        shares = {"highest_name": name, "max_over_mean": over, "highest": 4096.0, "mean": mean, "places": places}
        return {"level": level, "load": load, **shares}

    found = screen("placement", section("skew", of("node", "bytes", "n-1", 1.1), of("partition", "commits", "9", 7.25)))
    assert (found.level, found.summary) == (Level.LOOK, "Partition 9 has 7.2 times the commits of the mean partition.")
    assert [(row["which"], row["there"]) for row in found.rows] == [("offsets-9", "4,096"), ("n-1", "4.0 KiB")]
    even = screen("placement", section("skew", of("node", "bytes", "n-1", 1.1)))
    assert (even.level, even.summary) == (Level.WELL, "No node carries twice the mean.")
    both = [of("partition", "bytes", "9", 30.0), of("node", "bytes", "n-1", 1.1)]
    of_one = screen("placement", section("skew", *both, of("partition", "groups", "9", 50.0, mean=1 / 50)))
    assert (of_one.level, of_one.summary, of_one.more) == (
        Level.INFO,
        "No node carries twice the mean.",
        ["1 group on 50 partitions: too few to judge how even the load is."],
    )
    few = section("skew", *both, of("partition", "groups", "9", 50.0, mean=1 / 50))
    actors = [{"actor": f"offsets-{number}", "commits": 0 if number else 7} for number in range(50)]
    bars = Plot(kind="bars", x=("actor",), y="commits", y_label="commits")
    partitions = replace(section("partitions", *actors), plot=bars)
    top, folded = render_results([result("placement", partitions, few)], Options(now=NOON)).split(
        '<details class="all">'
    )
    assert "<table" not in top
    assert "<svg" not in top
    assert "Drawn is the largest" in folded
    many = screen("placement", section("skew", *both, of("partition", "groups", "9", 1.5, mean=20.0)))
    assert (many.level, many.summary) == (Level.LOOK, "Partition 9 has 30.0 times the bytes of the mean partition.")
    one_place = [of("node", "groups", "n-1", 1.0, places=1, mean=1.0)]
    assert screen("placement", section("skew", *one_place)).level == Level.WELL


def test_a_screen_has_the_worst_rows_and_the_rest_is_folded() -> None:
    rows = [standing(f"g-{number:02}", lag=100 - number) for number in range(LEAD_ROWS + 3)]
    page = render_results([result("lag", section("groups", *rows))], Options(now=NOON))
    shown, folded = page.split('<details class="all">')
    assert "3 more in the tables below." in shown
    assert f"g-{LEAD_ROWS - 1:02}" in shown
    assert f"g-{LEAD_ROWS:02}" not in shown
    assert f"g-{LEAD_ROWS:02}" in folded
    assert f"({LEAD_ROWS + 3} rows)" in folded


def test_headlines_count_all_groups_not_those_that_were_fetched() -> None:
    fetched = [standing(f"g-{number}", "STOPPED", 9) for number in range(2)]
    sums = {"groups": 16_759, "stuck_groups": 16_000, "behind_groups": 1, "lag_messages": 5, "lost_messages": 0}
    behind = result("lag", section("groups", *fetched, standing("slow", "WARNING", 4), total=sums))
    header = render_results([behind], Options(now=NOON)).split("</header>")[0]
    assert (
        "16,000 of 16,759 groups get no further: g-0 (STOPPED, 9 behind), g-1 (STOPPED, 9 behind) and 15,998 more."
        in header
    )
    assert "1 falls behind: slow (4 behind)." in header
    many = [standing(f"g-{number:03}", lag=9) for number in range(300)]
    page = render_results(
        [result("lag", section("groups", *many, total={**sums, "stuck_groups": 0}))], Options(now=NOON)
    )
    assert "16,753 more; the tables below have the first 200." in page
    charge = {"group": "billing", "bytes": 1 << 30, "messages": 10, "cost": None}
    sent = section("chargeback", charge, total={"groups": 9, "group_bytes": 4 << 30, "bytes": 4 << 30})
    assert screen("consumption", sent).summary == "4.0 GiB sent to 9 groups (billing 25% and 8 more)."
    counted = {"group": "billing", "rebalances": 9, "lost_partition_seconds": 9.0, "cause": "member left"}
    of_all = {"groups": 70, "rebalances": 500, "troubled_groups": 30}
    stormy = screen("rebalances", section("groups", counted, total=of_all), section("storms", {"group": "billing"}))
    assert stormy.summary == "billing and 29 more rebalance again and again."
    calm = screen("rebalances", section("groups", counted, total={**of_all, "troubled_groups": 0}))
    assert calm.summary == "500 rebalances of 70 groups: no group too often."


def test_columns_that_decide_are_first_and_columns_without_a_value_left_out() -> None:
    row = {"member_id": "m", **dict.fromkeys(("host", "b", "c"), "x"), "group_instance_id": None}
    page = page_of(section("partitions", {**row, "lag_messages": 5, "verdict": "STALLED", "group": "billing"}))
    folded = page.split("<details>")[1]
    assert re.findall(r'<th scope="col"[^>]*>([^<]*)<', folded)[:4] == ["group", "verdict", "lag messages", "member id"]
    assert "group instance id" not in folded


def test_empty_tables_have_a_page() -> None:
    page = render_results([result(each.job, section("groups")) for each in SCREENS], Options(now=NOON))
    assert "Nothing was sent." in page
    assert "<table" not in page


def test_a_long_name_is_whole_in_the_page() -> None:
    member = "rdkafka-0ac348ca-9f62-4146-be10-11fb757b86c4"
    assert shortened("billing") == "billing"
    assert shortened(member) == (
        f'<span class="id" title="{member}"><span>{member[:-9]}</span><span>{member[-9:]}</span></span>'
    )
    chinese = "\u8acb\u6c42\u66f8" * 20
    assert shortened(chinese) == f'<bdi class="id end" title="{chinese}">{chinese}</bdi>'
    assert "<b>" not in shortened("<b>" * 20)


def test_long_names_that_begin_alike_can_be_distinguished() -> None:
    names = [f"the-data-platform-team.consumer-{number}.of-the-nightly-job.production" for number in range(2)]
    alike = shared_beginnings([*names, "billing", "x" * 40])
    assert alike == {names[0]: 32, names[1]: 32}
    assert shortened(names[1], alike[names[1]]) == (
        f'<span class="id two" title="{names[1]}"><span>the-data-platform-team.cons</span>'
        "<span>umer-1.of-the-nightly-job.p</span><span>roduction</span></span>"
    )


def test_axes_have_round_values() -> None:
    assert number_ticks(0, 533_000, "bytes_per_second") == [
        (0, "0"),
        (204_800, "200 KiB/s"),
        (409_600, "400 KiB/s"),
    ]
    assert [text for _, text in number_ticks(0, 25_000, "lag_messages")] == ["0", "10k", "20k"]
    assert [text for _, text in number_ticks(0, 1, "share")] == ["0", "25%", "50%", "75%", "100%"]
    assert [text for _, text in number_ticks(0, 200, "seconds")] == ["0", "1 min", "2 min", "3 min"]
    assert [text for _, text in number_ticks(0, 1, "rebalances", whole=True)] == ["0", "1"]
    assert [text for _, text in number_ticks(-3, 3, "catch_up")] == ["-2", "0", "2"]


def test_times_on_an_axis_are_those_of_the_zone_also_when_clocks_change() -> None:
    zone = ZoneInfo("Europe/Berlin")
    night = time_ticks(datetime(2026, 10, 24, 20, tzinfo=UTC), datetime(2026, 10, 25, 8, tzinfo=UTC), zone)
    assert [text for _, text, _ in night] == ["22:00", "00:00", "02:00", "02:00", "04:00", "06:00", "08:00"]
    assert [date for _, _, date in night if date] == ["2026-10-24", "2026-10-25"]
    spring = time_ticks(datetime(2026, 3, 26, tzinfo=UTC), datetime(2026, 4, 2, tzinfo=UTC), zone)
    assert [text for _, text, _ in spring] == [f"03-{day}" for day in range(27, 32)] + ["04-01", "04-02"]
    moments = time_ticks(NOON, NOON + timedelta(seconds=40), UTC)
    assert [text for _, text, _ in moments][:3] == ["12:00:00", "12:00:05", "12:00:10"]


ODD = [
    "_schemas",
    "cost$\\frac$",
    "<script>alert(1)</script>",
    "a\"b'c&d",
    "two\nlines",
    "\u202eleft to right",
    "\u05e9\u05dc\u05d5\u05dd",
    "\u4e2d\u6587",
    '#010101 id="x',
    "x" * 200,
    "x" * 199 + "y",
    "",
]


def drawn_section(kind: Literal["lines", "bars"], rows: list[dict[str, Any]], **more: Any) -> Shown:
    plot = Plot(kind=kind, x=("at",) if kind == "lines" else ("topic",), y="bytes", y_label="bytes", series=("group",))
    return replace(section("plotted", *rows), plot=replace(plot, **more))


def page_of(*sections: Shown, **options: Any) -> str:
    return render_results([result("lag", *sections)], Options(**{"now": NOON} | options))


def label_of(page: str) -> str:
    """Return the text of its first plot."""
    return html.unescape(page.split('aria-label="')[1].split('"')[0])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ODD)
def test_a_group_may_be_called_whatever_it_likes(name: str) -> None:
    """The name is complete text of the page, which the browser's fonts render in any script."""
    rows = [
        {"at": NOON, "topic": name, "group": name, "bytes": 5},
        {"at": NOON, "topic": "t", "group": None, "bytes": 1},
    ]
    page = page_of(drawn_section("lines", rows), drawn_section("bars", rows))
    whole = html.escape(printable(name)) or "&nbsp;"
    lines, bars = re.findall(r"<figure .*?</figure>", page, re.DOTALL)
    assert f'<bdi title="{whole}">{whole}</bdi>' in lines
    assert f'<bdi class="name" title="{whole}">{whole}</bdi>' in bars
    assert "<text" not in page
    assert f"{whole}<" in page.split("<table")[1] or f'title="{whole}"' in page.split("<table")[1]
    assert "<script" not in page


def test_the_largest_bars_are_drawn_and_how_many_are_not() -> None:
    rows = [{"topic": f"t-{number:02}", "group": "billing", "bytes": number} for number in range(30)]
    page = page_of(drawn_section("bars", rows))
    assert label_of(page).split(": ")[1].split(", ")[:2] == ["t-29 29", "t-28 28"]
    assert "t-22 22" in label_of(page)
    assert "t-21" not in label_of(page)
    assert "Drawn are the 8 largest; 22 more are in the table." in page


def test_bars_of_nothing_are_not_drawn_as_zero_nor_among_the_largest() -> None:
    recovered = [{"topic": kind, "group": "g", "bytes": size} for kind, size in (("gateway", None), ("log", 4))]
    page = page_of(drawn_section("bars", recovered, absent="none recovered"))
    assert label_of(page).endswith("gateway none recovered, log 4")
    assert '<span class="track"></span><span class="n">none recovered</span>' in page
    rows = [{"topic": f"t-{number:02}", "group": "billing", "bytes": number % 2 * number} for number in range(13)]
    page = page_of(drawn_section("bars", rows))
    assert label_of(page).endswith("t-11 11, t-09 9, t-07 7, t-05 5, t-03 3, t-01 1")
    assert "Drawn are the 6 largest; 7 more are in the table." in page


def test_a_plot_has_the_groups_at_the_top_of_the_table_in_its_order(curves: dict[str, Any]) -> None:
    verdicts = [("slow", "WARNING", 9), ("crashed", "STOPPED", 1)]
    groups = section("groups", *(standing(f"g-{n}", lag=n) for n in range(9)), *(standing(*of) for of in verdicts))
    points = [
        {"at": NOON + timedelta(minutes=minute), "group": group, "bytes": size}
        for group, size in [("crashed", 1), ("slow", 2), *((f"g-{n}", 100 - n) for n in range(9))]
        for minute in (0, 1)
    ]
    page = page_of(groups, replace(drawn_section("lines", points), name="over_time"))
    assert list(curves) == ["crashed", "slow", "g-8", "g-7"]
    assert "Drawn are the first 4; 7 more are in the table." in page


def test_of_many_bars_one_alone_may_have_a_size() -> None:
    rows = [{"topic": f"t-{number:02}", "group": "g", "bytes": 0 if number else 7} for number in range(50)]
    assert "Drawn is the largest; 49 more are in the table." in page_of(drawn_section("bars", rows))


def test_a_bar_has_as_many_parts_as_there_are_colours_and_the_others() -> None:
    rows = [{"topic": "t", "group": f"g-{number}", "bytes": 10 - number} for number in range(6)]
    page = page_of(drawn_section("bars", rows))
    for text in ("g-0", "g-3", "(others)"):
        assert f">{text}</bdi></li>" in page
    assert ">g-4</bdi></li>" not in page
    assert label_of(page).endswith("t 45")


@pytest.fixture
def curves(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the last drawing, by name, as minutes after noon and heights."""
    found: dict[str, Any] = {}

    def draw(series: dict[str, list[tuple[datetime, float | None]]], **_: Any) -> str:
        found.clear()
        for name, points in series.items():
            found[name] = [((at - NOON) / timedelta(minutes=1), y) for at, y in points]
        return "<figure></figure>"

    monkeypatch.setattr(plots, "time_lines", draw)
    return found


def minutes(group: str, *numbers: int) -> list[dict[str, Any]]:
    return [{"at": NOON + timedelta(minutes=number), "group": group, "bytes": 1} for number in numbers]


def test_where_a_curve_has_no_points_it_is_zero_or_not_there(curves: dict[str, Any]) -> None:
    rows = [*minutes("a", 0, 1, 5, 6), *minutes("b", 2)]
    page_of(drawn_section("lines", rows, absent_is_zero=True))
    assert curves["a"] == [(0, 1), (1, 1), (2, 0), (4, 0), (5, 1), (6, 1)]
    assert curves["b"] == [(0, 0), (1, 0), (2, 1), (3, 0), (6, 0)]
    page_of(drawn_section("lines", rows))
    assert curves["a"] == [(0, 1), (1, 1), (2, None), (5, 1), (6, 1)]


def test_an_hour_that_comes_twice_is_drawn_twice(curves: dict[str, Any]) -> None:
    zone = ZoneInfo("Europe/Berlin")
    night = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    rows = [
        {"at": (night + timedelta(minutes=30 * number)).astimezone(zone), "group": "a", "bytes": number}
        for number in range(4)
    ]
    page_of(drawn_section("lines", rows), timezone=zone.key)
    assert [y for _, y in curves["a"]] == [0, 1, 2, 3]


def test_a_section_that_is_cut_is_drawn_by_what_spark_sought_out(curves: dict[str, Any]) -> None:
    columns = ("group", "at", "bytes")
    rows = [tuple(row[name] for name in columns) for row in minutes("largest", 0, 10)]
    plotted = Plotted(columns=columns, rows=rows, in_all=7, step_seconds=600)
    cut = replace(drawn_section("lines", minutes("first", 0, 1), absent_is_zero=True), cut=True, plotted=plotted)
    page = page_of(cut)
    assert curves == {"largest": [(0, 1), (10, 1)]}
    assert "Drawn are the 4 highest; 6 more are in the table. A point is the highest value of 600 s." in page
