"""The page in a real browser, without a network. A missing browser is a failure."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from muster.spark.jobs.job import Options, Plot
from muster.spark.render.report_page import render_results
from muster.spark.result import JobResult, Shown
from tests.spark.render.pages import result, section, standing
from tests.spark.rows import NOON

pytestmark = pytest.mark.ring(name="spark-apart")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
LIGHT, DARK = "1", "0"
PAPER = {LIGHT: "rgb(253, 253, 251)", DARK: "rgb(21, 24, 28)"}
FIRST_SERIES = {LIGHT: "rgb(31, 111, 180)", DARK: "rgb(109, 179, 242)"}
WIDTHS = (700, 1280, 1920)
MIDNIGHT = NOON.replace(hour=0)
"""The end of curves, so that the last label has a date."""
SCREEN_PX, LINE_PX = 800, 30
"""The visible height of a screen of 1280 x 800; and more than one line of a table is high, but less than two."""
TIMEOUT_S = 100
GROUPS = ["billing", "\u8acb\u6c42\u66f8-\u51e6\u7406", "\u0641\u0648\u0627\u062a\u064a\u0631", "\U0001f680-launch"] + [
    f"the-data-platform-team.consumer-group-{number}.of-the-nightly-reconciliation.production" for number in range(8)
]
MEMBER = "billing-worker-{}-7f9c6d5b4-x2xq9-1c66ac0e-94f4-4a6f-8a7b-5ef4d5a0d3c1"

MEASURE = """
const all = name => [...document.querySelectorAll(name)];
const box = (one, of = one.getBoundingClientRect()) => ({right: of.right, width: of.width, height: of.height});
const copied = one => { getSelection().selectAllChildren(one); return getSelection().toString(); };
const found = {
  width: document.documentElement.scrollWidth,
  height: document.documentElement.scrollHeight,
  paper: getComputedStyle(document.body).backgroundColor,
  screens: all(".screen").map(one => box(one).height),
  leads: all(".lead").map(one => ({
    heads: [...one.querySelectorAll("thead th")].filter(head => head.offsetParent).map(
      head => ({...box(head), text: head.textContent})),
    hidden: one.parentElement.scrollWidth - one.parentElement.clientWidth,
  })),
  curves: all(".area path.s1").map(one => ({...box(one), stroke: getComputedStyle(one).stroke})),
  labels: all(".x span").map(one => ({
    ...box(one), plot: box(one.closest(".chart").parentElement).right, text: one.innerText})),
  bars: all(".track .s1").map(one => ({...box(one), fill: getComputedStyle(one).backgroundColor})),
};
all("details").forEach(one => { one.open = true });
found.opened = document.documentElement.scrollWidth;
found.ids = all(".id").map(one => ({...box(one), text: copied(one)}));
document.title = JSON.stringify(found);
"""


def over_time(name: str, x: str, y: str) -> Shown:
    lines = Plot(kind="lines", x=(x,), y=y, y_label=y, series=("group",))
    rows = [
        {x: MIDNIGHT + timedelta(minutes=minute - 13), "group": group, y: 1000 * place + 50 * minute}
        for place, group in enumerate(GROUPS)
        for minute in range(14)
    ]
    return replace(section(name, *rows), plot=lines)


def results() -> list[JobResult]:
    """Return results of 14 minutes with a dozen groups, with every long name."""
    rule = (
        "it has not committed for 424 s; its last commits were made within 61 s; "
        "its last member was removed: session expired"
    )
    verdicts = ("STOPPED", "WARNING", "OK")
    groups = [
        standing(group, verdicts[place % 3], 10**7 + place, lag_seconds=86_000.0, rule=rule)
        for place, group in enumerate(GROUPS)
    ]
    partitions = [
        {**row, "topic": "flights", "partition": number, "member_id": MEMBER.format(number), "client_id": "rdkafka"}
        | dict.fromkeys(("offset", "log_end", "beyond_end_messages", "produced", "consumed"), 1_234_567_890)
        for number, row in enumerate(groups)
    ]
    outages = [
        {"actor": f"offsets-{number}", "kind": "offsets", "seconds": 4.2, "open_seconds": None, "began": NOON}
        | {
            "fault": "kill",
            "detect_seconds": 0.1,
            "node_id": "310c0777723e06142e9b817b8ff13aa8059238b1440b35334386b4aa",
        }
        | {"reason": "its process has ended, and another one was started in its place"}
        for number in range(12)
    ]
    rebalances = [
        {"group": group, "rebalances": 33, "per_hour": 33.0, "lost_partition_seconds": 12_345.6, "max_seconds": 2.8}
        | {"cause": "member joined"}
        for group in GROUPS
    ]
    triggering_members: list[dict[str, Any]] = [
        dict[str, Any]({"group": group, "client_id": MEMBER.format(1), "host": "10.0.0.1", "group_instance_id": None})
        | {"rebalances": 32, "lost_partition_seconds": 12_345.6, "waited_rebalances": 0, "waited_seconds": None}
        for group in GROUPS
    ]
    sent = [{"group": group, "bytes": 10**10, "messages": 10**8, "share_percent": 8.3, "cost": 1.5} for group in GROUPS]
    kinds = Plot(kind="bars", x=("actor",), y="seconds", y_label="seconds")
    return [
        result(
            "lag", section("groups", *groups), section("partitions", *partitions), over_time("over_time", "at", "lag")
        ),
        result("failover", replace(section("longest", *outages), plot=kinds)),
        result(
            "rebalances",
            section("groups", *rebalances),
            section("culprits", *triggering_members),
            section("storms", *({"group": group} for group in GROUPS)),
            over_time("over_time", "bucket", "rebalances"),
        ),
        result("consumption", section("chargeback", *sent), over_time("per_bucket", "bucket", "rate_bytes_per_second")),
    ]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = render_results(results(), Options(now=NOON))
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(text.replace("</body>", f"<script>{MEASURE}</script></body>"))
    return file


def measured(page: Path, width: int, scheme: str = LIGHT) -> dict[str, Any]:
    """Return the script's findings."""
    if BROWSER is None:
        pytest.fail("no chromium and no google-chrome: the report was not looked at in a browser")
    flags = ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking")
    done = subprocess.run(
        [
            BROWSER,
            *(f"--{flag}" for flag in (*flags, "disable-component-update", "disable-sync", "hide-scrollbars")),
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={page.parent / f'profile-{width}-{scheme}'}",
            f"--blink-settings=preferredColorScheme={scheme}",
            *(f"--window-size={width},{SCREEN_PX}", "--dump-dom", page.as_uri()),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title
    found: dict[str, Any] = json.loads(html.unescape(title[1]))
    return found


@pytest.mark.timeout(2 * TIMEOUT_S)
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_page_and_no_name_higher_than_a_line(page: Path, width: int) -> None:
    found = measured(page, width)
    assert (found["width"], found["opened"]) == (width, width)
    for lead in found["leads"]:
        assert lead["hidden"] <= 0, [head["text"] for head in lead["heads"]]
        assert max(head["right"] for head in lead["heads"]) <= width
    assert len(found["ids"]) > 2 * len(GROUPS)
    for name in found["ids"]:
        assert name["height"] < LINE_PX, name
    assert any("2026" in label["text"] and label["right"] > label["plot"] - 60 for label in found["labels"])
    for label in found["labels"]:
        assert label["right"] <= label["plot"], label
    member = MEMBER.format(0)
    assert member in {name["text"] for name in found["ids"]}  # its hidden part is copied as well


@pytest.mark.timeout(TIMEOUT_S)
def test_each_screen_fits_the_window_and_shows_its_decisive_columns(page: Path) -> None:
    found = measured(page, 1280)
    assert len(found["screens"]) == 4
    assert max(found["screens"]) <= SCREEN_PX
    assert found["height"] <= (len(found["screens"]) + 1) * SCREEN_PX
    lag = [head["text"] for head in found["leads"][0]["heads"]]
    assert lag[:5] == ["group", "verdict", "messages behind", "oldest of them", "caught up in"]
    assert "why" in lag
    assert [head["text"] for head in measured(page, 700)["leads"][0]["heads"]] == lag[:5]


@pytest.mark.timeout(2 * TIMEOUT_S)
@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_the_plots_are_there_in_the_colours_of_the_scheme(page: Path, scheme: str) -> None:
    found = measured(page, 1280, scheme)
    assert found["paper"] == PAPER[scheme]
    assert len(found["curves"]) == 3
    for curve in found["curves"]:
        assert curve["width"] > 1000
        assert curve["stroke"] == FIRST_SERIES[scheme]
    assert {bar["fill"] for bar in found["bars"]} == {FIRST_SERIES[scheme]}
    assert min(bar["width"] for bar in found["bars"]) > 800
