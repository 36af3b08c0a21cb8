"""The Grafana dashboard queries metrics and labels that /metrics has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import muster.gateway
from muster.gateway.docs import generate as generated_docs

FOLDER = Path(muster.gateway.__file__).parent / "grafana"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboards" / "muster.json").read_text())

_ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<kind>\w+) \| (?P<labels>[^|]*) \|", re.MULTILINE)
_METRIC = re.compile(r"\b(?:muster|kop)_\w+")
_GROUPING = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
_SELECTORS = re.compile(r"(\w+)\{([^}]*)\}")
_SELECTED = re.compile(r"(\w+)\s*(?:=~|!=|!~|=)\s*\"")
_LEGEND = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_SUFFIXES: dict[str, dict[str, set[str]]] = {
    "histogram": {"_bucket": {"le"}, "_sum": set(), "_count": set()},
    "summary": {"_sum": set(), "_count": set()},
}


def exposed() -> dict[str, set[str]]:
    """Every series' name with its labels, from the registries that /metrics answers from."""
    series: dict[str, set[str]] = {}
    for row in _ROW.finditer(generated_docs.metrics()):
        labels = {"gateway", *re.findall(r"`(\w+)`", row["labels"])}
        for suffix, more in _SUFFIXES.get(row["kind"], {"": set()}).items():
            series[row["name"] + suffix] = labels | more
    return series


def wrong(expression: str, legend: str, known: dict[str, set[str]]) -> Iterator[str]:
    """Names that no scrape has. Labels of a grouping must be those of all metrics in the expression."""
    names = _METRIC.findall(expression)
    yield from (f"no metric {name}" for name in names if name not in known)
    if not names:
        yield f"no metric in {expression}"
    grouped = {label.strip() for listed in _GROUPING.findall(expression) for label in listed.split(",")}
    wanted = {name: grouped | set(_LEGEND.findall(legend)) for name in names}
    for name, selectors in _SELECTORS.findall(expression):
        wanted[name] = wanted[name] | set(_SELECTED.findall(selectors))
    for name, labels in wanted.items():
        yield from (f"{name} has no label {label}" for label in sorted(labels - known.get(name, labels)))
    yield from (f"{label} is not kept by {expression}" for label in set(_LEGEND.findall(legend)) - grouped)


def queries() -> Iterator[tuple[str, str, str]]:
    """Where, expression, legend."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]
    for note in DASHBOARD["annotations"]["list"]:
        yield note["name"], note["expr"], note["titleFormat"]


@pytest.mark.parametrize(("expression", "legend"), [(e, n) for _, e, n in queries()], ids=[t for t, _, _ in queries()])
def test_a_panel_queries_what_is_exposed(expression: str, legend: str) -> None:
    assert list(wrong(expression, legend, exposed())) == []


def test_what_is_not_exposed_is_found() -> None:
    known = exposed()
    assert known["muster_request_duration_seconds_bucket"] == {"gateway", "api", "le"}
    assert list(wrong("sum(rate(muster_fetch_byte_total[1m]))", "", known)) == ["no metric muster_fetch_byte_total"]
    assert list(wrong('muster_connections{group="a"}', "", known)) == ["muster_connections has no label group"]
    assert list(wrong("sum by (topic) (muster_fetch_bytes_total)", "{{gateway}}", known)) == [
        "gateway is not kept by sum by (topic) (muster_fetch_bytes_total)"
    ]


def test_variables_query_what_is_exposed() -> None:
    expressions = [v["query"]["query"] for v in DASHBOARD["templating"]["list"] if v["type"] == "query"]
    known = exposed()
    for query in expressions:
        found = re.fullmatch(r"label_values\((\w+), (\w+)\)", query)
        assert found is not None
        assert found[2] in known[found[1]]
    variables = {v["name"] for v in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(DASHBOARD)))
    assert used == variables


def test_every_number_says_when_it_is_bad() -> None:
    """Without its own thresholds, Grafana shows anything above 80 in red."""
    numbers = [panel for panel in DASHBOARD["panels"] if panel["type"] == "stat"]
    assert numbers
    assert all(panel["fieldConfig"]["defaults"]["thresholds"]["steps"] for panel in numbers)


def test_panels_have_places_and_numbers_of_their_own() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert max(x for x, _ in cells) < 24
        assert not cells & taken
        taken |= cells


def test_provisioned_from_a_file() -> None:
    (provider,) = yaml.safe_load((FOLDER / "provisioning" / "dashboards" / "muster.yaml").read_text())["providers"]
    assert (provider["type"], provider["options"]["path"]) == ("file", "/var/lib/grafana/dashboards/muster")
