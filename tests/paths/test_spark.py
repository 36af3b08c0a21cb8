"""A job of ``muster spark`` over the tables of this Muster, and its page: one start of Spark for both."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from muster.spark.units import cell_in
from tests.cluster.consumer_groups.groups import until_read, working
from tests.cluster.consumer_groups.members import ConfluentMember, Producer
from tests.muster_process import Muster, eventually
from tests.table_rows import table_rows

COUNT = 1_200
PATIENCE_S = 300
"""Spark has a low priority, and other tests run at the same time."""


class Page(HTMLParser):
    """The tables of a page by their captions: rows of texts by column."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[dict[str, str]]] = {}
        self._text = ""
        self._cells: list[str] = []
        self._columns: list[str] = []
        self._rows: list[dict[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in ("caption", "th", "td"):
            self._text = ""
        elif tag == "tr":
            self._cells = []

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "caption":
            self._columns, self._rows = [], self.tables.setdefault(self._text, [])
        elif tag in ("th", "td"):
            self._cells.append(self._text)
        elif tag == "tr" and not self._columns:
            self._columns = self._cells
        elif tag == "tr":
            self._rows.append(dict(zip(self._columns, self._cells, strict=True)))


def sent_bytes(muster: Muster, group: str) -> int:
    """Bytes that the gateways have counted for the group."""
    urls = [str(actor["metrics_url"]) for actor in muster.actors().values() if actor["metrics_url"]]
    found = 0
    for url in urls:
        with urllib.request.urlopen(url, timeout=30) as response:
            families = text_string_to_metric_families(response.read().decode())
        samples = [sample for family in families for sample in family.samples]
        found += sum(
            int(sample.value)
            for sample in samples
            if sample.name == "muster_group_fetch_bytes_total" and sample.labels["group"] == group
        )
    return found


def number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.timeout(PATIENCE_S + 100)
def test_consumption_is_what_the_clients_read(muster: Muster, fresh: Callable[[str], str], tmp_path: Path) -> None:
    """A member may be sent more than it reads: librdkafka drops responses from before a rebalance."""
    topic = muster.topic(fresh("flights"), partitions=6)
    group = fresh("billing")
    members = [ConfluentMember(muster.bootstrap, topic, group, **{"client.id": f"billing-{n}"}) for n in range(2)]
    producer = Producer(muster.bootstrap, topic)
    with working(*members):
        producer.send(COUNT)
        producer.flush()
        until_read(members, COUNT)

    def recorded() -> tuple[int, int]:
        """Offsets that were sent at least once, and bytes."""
        rows = [row for row in table_rows(muster.storage, "samples") if row["group"] == group]
        ranges = [(row["partition"], range(row["first_offset"], row["last_offset"] + 1)) for row in rows]
        offsets = {(partition, offset) for partition, run in ranges for offset in run}
        return len(offsets), sum(row["bytes"] for row in rows)

    complete = lambda found: found == (COUNT, sent_bytes(muster, group))  # noqa: E731
    _, size = eventually(recorded, complete, "the table samples has all that was sent")
    out = tmp_path / "page.html"
    done = muster.run("spark", "consumption", "--local", "--group", group, "--out", str(out), timeout_s=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    tables = Page(out.read_text()).tables
    (row,) = tables["Messages and bytes per group"]
    assert (row["group"], row["bytes"], row["distinct"]) == (group, cell_in(size, "bytes"), f"{COUNT:,}")
    consumers = {row["client id"]: number(row["distinct"]) for row in tables["Consumers with the most bytes"]}
    assert consumers.keys() == {member.config["client.id"] for member in members}
    assert all(consumers[member.config["client.id"]] >= len(member.read) for member in members)
