"""The page is self-contained, begins with the answer, and is readable without the plots."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from examples.demo.consumption import Consumption, Unattributed
from examples.demo.page import Check, Fact, render
from examples.demo.run import report_of
from tests.examples.recorded import recorded

REPORT = report_of(recorded())
PAGE = render(REPORT)


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
    page = _Page(PAGE)
    assert "script" not in page.tags
    assert all(link.startswith("#") for link in page.links)
    assert len(page.ids) == len(set(page.ids))


def test_begins_with_the_facts_and_ends_with_the_checks() -> None:
    body = PAGE.split("<main>")[1]
    order = [
        "All 18 checks are ok.",
        "0.84 s",
        "0 of 336,776",
        "100% known",
        "<figure",
        "<table",
        "every row is in the",
    ]
    places = [body.index(text) for text in order]
    assert places == sorted(places)
    assert "held" not in re.sub(r'class="[^"]*"', "", body)


def test_the_plots_say_in_words_what_they_show() -> None:
    lag, rate, sent = _Page(PAGE).images
    assert "archive at most 0.941 s, at 33 s" in lag
    assert "Marked: offsets-9 killed at 34 s; gateway-3 killed at 51 s." in lag
    assert "gateway-3 killed at 51 s" in rate
    assert "flights-1 3" in sent


def test_plots_over_time_have_the_same_axis_and_the_same_marks() -> None:
    charts = re.findall(r'<div class="chart">.*?</figure>', PAGE, re.DOTALL)
    assert len(charts) == 2
    axes = [re.findall(r'left:([\d.]+)%">([^<]*)<br>', chart) for chart in charts]
    marks = [re.findall(r'class="mark[^"]*" style="left:([\d.]+)%"><b[^>]*>([^<]*)<', chart) for chart in charts]
    assert axes[0] == axes[1]
    assert marks[0] == marks[1]
    assert [label for _, label in marks[0]] == ["offsets-9 killed", "gateway-3 killed"]
    drawn = [
        float(x) for chart in charts for x in re.findall(r"[ML](-?[\d.]+) ", chart.replace('class="rule" d="M0', ""))
    ]
    assert min(drawn) >= 0
    assert max(drawn) <= 1000


def test_long_tables_are_folded_and_a_failed_check_is_not() -> None:
    assert PAGE.count("<details") == 3
    assert "<details open" not in PAGE
    failed = Check(name="no committed offset goes back", held=False, detail="billing flights-3: 200 after 300")
    text = render(replace(REPORT, checks=[*REPORT.checks, failed]))
    assert "1 of 19 checks failed." in text
    assert "checks are ok" not in text
    folded = text.split("<details open>")[1]
    assert folded.index("billing flights-3: 200 after 300") < folded.index("every row is in the topic once")


def test_a_bad_fact_looks_bad() -> None:
    bad = Fact(label="Records lost", word="Lost", figure="1 of 9", details=["x < y"], short="", is_good=False)
    assert '<div class="failed"><dt>Records lost</dt><dd class="figure">1 of 9</dd><dd>x &lt; y</dd></div>' in render(
        replace(REPORT, facts=[bad])
    )
    assert 'class="failed"' not in PAGE


def test_an_unattributed_rest_and_untrusted_names_are_shown_as_text() -> None:
    rest = Unattributed(
        reason="no_group", topic="flights", client_id="<script>", host="127.0.0.1", messages=7, bytes=700
    )
    text = render(replace(REPORT, consumption=replace(REPORT.consumption, unattributed=(rest,))))
    assert "no_group" in text
    assert "&lt;script&gt;" in text


def test_a_run_without_samples_still_has_a_page() -> None:
    empty = replace(REPORT, consumption=Consumption(), groups=[], lag={}, waits=[], events=[])
    assert "<svg" in render(empty)
