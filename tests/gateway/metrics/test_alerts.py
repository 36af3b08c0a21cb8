"""The alert rules: sound, with a page each, silent while all is well, and firing when it is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from muster.gateway.metrics.families import FAMILIES
from tests.gateway.metrics.promtool import MINUTES, RULES, alerts, firing, promtool, up

RUNBOOK = Path(__file__).parents[3] / "docs" / "operations" / "alerts.md"
_NAME, _MATCHERS = re.compile(r"\bmuster_\w+"), re.compile(r"\b(muster_\w+)\{([^}]*)\}")
_SUFFIXES = ("", "_bucket", "_sum", "_count")


@pytest.mark.ring(name="operations")  # it needs promtool
def test_the_rules_are_sound() -> None:
    assert f"{len(alerts())} rules found" in promtool("check", "rules", str(RULES))


def test_each_metric_and_label_exists() -> None:
    labels = {f"{each.name}{suffix}": set(each.labels) for each in FAMILIES for suffix in _SUFFIXES}
    for name, rule in alerts().items():
        for metric in _NAME.findall(rule["expr"]):
            assert metric in labels, name
        for metric, matchers in _MATCHERS.findall(rule["expr"]):
            assert set(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", matchers)) <= labels[metric] | {"gateway"}, name


def test_each_alert_has_its_page() -> None:
    """A section with the same four parts, to which its annotation points; and no section is without an alert."""
    text = RUNBOOK.read_text()
    sections = {
        section.partition("\n")[0].strip(): section
        for section in re.split(r"^## (?=Muster[A-Z])", text, flags=re.MULTILINE)[1:]
    }
    assert sections.keys() == alerts().keys()
    for name, rule in alerts().items():
        assert rule["annotations"]["runbook_url"] == f"docs/operations/alerts.md#{name.lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning")
        for part in ("**Meaning.**", "**Impact.**", "**Look at.**", "**Fix.**"):
            assert part in sections[name], name


_WITHOUT_COMMIT = 'muster_group_partitions_without_commit{group="g"}'
CASES: list[tuple[str, dict[str, str], set[str]]] = [
    ("a gateway does not answer", {'up{job="muster",instance="gateway-2"}': "0"}, {"MusterGatewayDown"}),
    ("the controller is lost", {"muster_controller_connected": "0"}, {"MusterControllerMissing"}),
    ("a coordinator is lost", {'muster_actor_connected{actor="offsets-7"}': "0"}, {"MusterCoordinatorUnavailable"}),
    ("a log actor is lost", {'muster_actor_connected{actor="log-0"}': "0"}, {"MusterLogUnavailable"}),
    (
        "one gateway is cut off from an actor",
        {
            'muster_actor_connected{actor="log-0",gateway="1"}': "1",
            'muster_actor_connected{actor="log-0",gateway="2"}': "0",
        },
        {"MusterActorUnreachable"},
    ),
    ("no ZooKeeper", {'muster_zookeeper_connected{gateway="1"}': "0"}, {"MusterZooKeeperUnavailable"}),
    (
        "a full disk",
        {"muster_storage_free_bytes": "9", "muster_storage_size_bytes": "100"},
        {"MusterStorageNearlyFull"},
    ),
    (
        "a disk with room",
        {"muster_storage_free_bytes": "11", "muster_storage_size_bytes": "100"},
        set(),
    ),
    ("a damaged log", {'muster_log_corrupt_segments{log="0"}': "1"}, {"MusterCorruptSegments"}),
    ("a stuck rebalance", {'muster_group_rebalance_running_seconds{group="g"}': "121"}, {"MusterRebalanceStuck"}),
    ("a slow rebalance", {'muster_group_rebalance_running_seconds{group="g"}': "119"}, set()),
    (
        "a storm",
        {'muster_group_rebalances_started_total{group="g",cause="member joined"}': "0+2"},
        {"MusterRebalanceStorm"},
    ),
    ("a group that is late", {'muster_group_max_lag_seconds{group="g"}': "301"}, {"MusterGroupBehind"}),
    ("a group that is not", {'muster_group_max_lag_seconds{group="g"}': "299"}, set()),
    (
        "a group that falls behind",
        {'muster_group_total_lag_messages{group="g"}': "100+100", 'muster_group_max_lag_seconds{group="g"}': "61"},
        {"MusterGroupFallsBehind"},
    ),
    (
        "a group whose lag hardly grows",
        {'muster_group_total_lag_messages{group="g"}': "9000+100", 'muster_group_max_lag_seconds{group="g"}': "61"},
        set(),
    ),
    (
        "a group that keeps up with ever more messages",
        {'muster_group_total_lag_messages{group="g"}': "100+100", 'muster_group_max_lag_seconds{group="g"}': "9"},
        set(),
    ),
    ("a group that commits nothing", {_WITHOUT_COMMIT: "3"}, {"MusterGroupWithoutCommit"}),
    ("its members end and return", {_WITHOUT_COMMIT: "3 0 0 " * 12 + "3"}, {"MusterGroupWithoutCommit"}),
    ("a group that has just begun", {_WITHOUT_COMMIT: "0x22 3"}, set()),
    (
        "an old transaction",
        {'muster_transaction_oldest_seconds{transactions_partition="3"}': "901"},
        {"MusterTransactionHangs"},
    ),
    (
        "bytes without a group",
        {
            'muster_unattributed_fetch_bytes_total{reason="ambiguous",topic="t",partition="0"}': "0+6000",
            'muster_fetch_bytes_total{topic="t",partition="0"}': "0+100000",
        },
        {"MusterBytesUnattributed"},
    ),
    (
        "readers that have no group",
        {
            'muster_unattributed_fetch_bytes_total{reason="no_group",topic="t",partition="0"}': "0+6000",
            'muster_fetch_bytes_total{topic="t",partition="0"}': "0+6000",
        },
        set(),
    ),
    (
        "an attribution that was lost",
        {'muster_audit_drift_bytes{group="g",topic="t",partition="0",cause="lost"}': "-10"},
        {"MusterAuditDifference"},
    ),
    (
        "an attribution to another group",
        {'muster_audit_drift_bytes{group="g",topic="t",partition="0",cause="mislabelled_elsewhere"}': "10"},
        {"MusterAuditDifference"},
    ),
    ("explained drift", {'muster_audit_drift_bytes{group="g",topic="t",partition="0",cause="prefetch"}': "10"}, set()),
    (
        "an old certificate",
        {'muster_tls_certificate_days_left{listener="EXTERNAL"}': "13.9"},
        {"MusterCertificateExpires"},
    ),
    ("a new certificate", {'muster_tls_certificate_days_left{listener="EXTERNAL"}': "14.1"}, set()),
    (
        "guessed passwords",
        {'muster_connections_closed_total{reason="authentication_failed"}': "0+5"},
        {"MusterFailedLogins"},
    ),
]


@pytest.mark.ring(name="operations")
@pytest.mark.parametrize(("series", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_fires(tmp_path: Path, series: dict[str, str], expected: set[str]) -> None:
    given = [{"series": name, "values": f"{value}x{MINUTES}"} for name, value in series.items()]
    assert firing(tmp_path, [up(1, 1), *given]) == expected


@pytest.mark.ring(name="operations")
def test_each_alert_has_a_case(tmp_path: Path) -> None:
    tested = {name for *_, expected in CASES for name in expected}
    assert alerts().keys() - tested == firing(tmp_path, []) == {"MusterNoGateways"}
