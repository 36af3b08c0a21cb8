"""The page is self-contained, shows which checks passed, and is readable without the plots."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

from examples.demo.consumption import Consumption, GroupPartition, GroupTotal, Sent, Unattributed
from examples.demo.page import Check, GroupLine, Report, render
from muster.spark.render.plots import Event

START_S = 1_777_636_800

CONSUMPTION = Consumption(
    sent=(
        Sent(bucket=datetime.fromtimestamp(START_S, UTC), group="billing", messages=10),
        Sent(bucket=datetime.fromtimestamp(START_S + 10, UTC), group="billing", messages=20),
    ),
    partitions=(GroupPartition(group="billing", topic="flights", partition=0, messages=30, bytes=3000),),
    groups=(GroupTotal(group="billing", messages=30, bytes=3000, distinct=28, resent=2),),
    unattributed=(
        Unattributed(reason="no_group", topic="flights", client_id=None, host="127.0.0.1", messages=7, bytes=700),
    ),
)

REPORT = Report(
    title="Muster demo <script>",
    started_s=START_S + 0.5,
    facts=[("records", "28")],
    checks=[Check(name="every record reaches every group", held=True, detail="28 of 28")],
    groups=[
        GroupLine(
            group="billing", client="confluent-kafka, 2 members", consumed=28, consumed_again=0, attributed=28, resent=2
        )
    ],
    progress={"produced": [(0, 0), (5, 28)], "billing": [(0, 0), (6, 28)]},
    events=[Event(at_s=3.0, label="gateway-1 killed")],
    consumption=CONSUMPTION,
)


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.images: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        if values.get("id"):
            self.ids.append(str(values["id"]))
        self.links += [str(value) for name, value in attrs if name in {"src", "href", "xlink:href"}]
        if tag == "figure":
            self.images.append(str(values.get("aria-label")))


def test_needs_no_network_and_no_script() -> None:
    page = _Page(render(REPORT))
    assert "script" not in page.tags
    assert all(link.startswith("#") for link in page.links)
    assert len(page.ids) == len(set(page.ids))


def test_the_plots_say_in_words_what_they_show() -> None:
    progress, rate, sent = _Page(render(REPORT)).images
    assert "billing 28" in progress
    assert "gateway-1 killed at 3 s" in progress
    assert "billing 30 in all" in rate
    assert "flights-0 3,000" in sent


def test_says_what_held_and_what_did_not() -> None:
    assert "All 1 checks are ok." in render(REPORT)
    failed = Check(name="no committed offset goes back", held=False, detail="billing flights-3: 200 after 300")
    text = render(replace(REPORT, checks=[*REPORT.checks, failed]))
    assert "1 of 2 checks failed." in text
    assert "billing flights-3: 200 after 300" in text
    assert "All" not in text.split("</h1>")[1].split("<dl>")[0]


def test_an_unattributed_rest_and_untrusted_names_are_shown_as_text() -> None:
    text = render(REPORT)
    assert "no_group" in text
    assert "Muster demo &lt;script&gt;" in text


def test_a_run_without_samples_still_has_a_page() -> None:
    assert "<svg" in render(replace(REPORT, consumption=Consumption(), groups=[], progress={}, events=[]))
