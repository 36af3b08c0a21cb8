"""The word list of CONTRIBUTING.md, held over names, docstrings, comments, messages and documentation."""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.test_layers import ROOT

_NOT_YET = """
    actors/audit/auditor.py actors/audit/books.py actors/audit/over_ray.py actors/controller/actor.py
    actors/controller/faults_over_ray.py actors/controller/lifecycle.py actors/controller/liveness.py
    actors/controller/standbys.py actors/controller/supervisor.py actors/controller/topics.py actors/faults/control.py
    actors/faults/history.py actors/faults/holder.py actors/faults/model.py actors/faults/plan.py
    actors/faults/registry.py actors/group/apis/admin.py actors/group/apis/sync.py actors/group/membership.py
    actors/group/messages.py actors/group/rebalance.py actors/group/registry.py actors/group/watchdog.py
    actors/log/actor.py actors/log/cumulative_size.py actors/log/fetch.py actors/log/files/loading.py
    actors/log/format/records.py actors/log/history.py actors/log/progress.py actors/log/server.py actors/log/service.py
    actors/log/trouble.py actors/offsets/held.py actors/offsets/history/open_windows.py
    actors/offsets/history/rebalances.py actors/offsets/metrics.py actors/offsets/partition.py actors/offsets/serving.py
    actors/reconciler/actor.py actors/reconciler/history.py actors/reconciler/reconciler.py actors/runtime/follow.py
    actors/runtime/java.py actors/runtime/zookeeper.py actors/tables/inspection.py actors/tables/rebalances.py
    actors/wire/channel.py actors/wire/envelope.py actors/wire/limited_log.py actors/wire/questions.py
    actors/wire/server.py benchmarks/attribution/__main__.py benchmarks/attribution/cases.py
    benchmarks/attribution/consumer.py benchmarks/attribution/kop.py benchmarks/attribution/muster.py
    benchmarks/attribution/stage.py benchmarks/attribution/truth.py benchmarks/attribution/world.py
    benchmarks/commit_recording.py benchmarks/failover.py benchmarks/fetch_cost.py benchmarks/large.py
    benchmarks/many.py benchmarks/members.py benchmarks/memory.py benchmarks/spark/beside.py benchmarks/spark/child.py
    benchmarks/spark/growth.py benchmarks/spark/scale.py docs/group-coordinator.md examples/demo/checks.py
    examples/demo/child.py examples/demo/counters.py examples/demo/observer.py examples/demo/run.py
    examples/demo/stage.py gateway/actor.py gateway/apis/admin.py gateway/apis/cluster/k03_metadata.py
    gateway/apis/configs/k32_describe_configs.py gateway/apis/configs/k74_list_config_resources.py
    gateway/apis/data/k00_produce.py gateway/apis/data/k01_fetch.py gateway/apis/data/k02_list_offsets.py
    gateway/apis/data/k21_delete_records.py gateway/apis/data/k22_init_producer_id.py gateway/apis/groups/forwarding.py
    gateway/apis/groups/k08_offset_commit.py gateway/apis/groups/k09_offset_fetch.py
    gateway/apis/groups/k10_find_coordinator.py gateway/apis/groups/k15_describe_groups.py
    gateway/apis/groups/k16_list_groups.py gateway/apis/groups/k42_delete_groups.py
    gateway/apis/groups/k47_offset_delete.py gateway/apis/partition_errors.py gateway/apis/partitions.py
    gateway/apis/security/k36_sasl_authenticate.py gateway/apis/topics/k37_create_partitions.py
    gateway/apis/transactions.py gateway/attribution/account.py gateway/attribution/ambiguity.py
    gateway/attribution/identity.py gateway/attribution/non_members.py gateway/attribution/positions.py
    gateway/attribution/table.py gateway/cli/audit.py gateway/cli/coordinator.py gateway/cli/fault.py
    gateway/cli/groups/admin.py gateway/cli/groups/commands.py gateway/cli/groups/describe.py
    gateway/cli/groups/history.py gateway/cli/groups/members.py gateway/cli/groups/offsets.py
    gateway/cli/groups/reset.py gateway/cli/groups/waiting.py gateway/cli/http.py gateway/cli/lifecycle/drain.py
    gateway/cli/lifecycle/given_ray.py gateway/cli/lifecycle/own_ray.py gateway/cli/lifecycle/start.py
    gateway/cli/login.py gateway/cli/mapping.py gateway/cli/mapping_rows.py gateway/cli/output.py
    gateway/cli/storage/shared.py gateway/cli/storage/tables.py gateway/cli/topics.py gateway/cluster.py
    gateway/faults/controller.py gateway/faults/injection.py gateway/http/audit.py gateway/http/faults.py
    gateway/http/groups.py gateway/http/lag.py gateway/http/openapi_faults.py gateway/http/server.py
    gateway/listener/connection.py gateway/listener/gateway.py gateway/listener/producer_ids.py
    gateway/listener/proxy_protocol.py gateway/listener/questions.py gateway/listener/upkeep.py gateway/metrics/audit.py
    gateway/metrics/groups.py gateway/metrics/reconciler.py gateway/security/mechanisms.py gateway/security/session.py
    placement/configs.py placement/drains.py placement/epochs.py placement/mapping/repair.py placement/mapping/writes.py
    placement/topics.py placement/zookeeper/client.py placement/zookeeper/ephemeral.py placement/zookeeper/multi.py
    placement/zookeeper/outages.py pytest-muster/src/pytest_muster/cluster.py pytest-muster/src/pytest_muster/faults.py
    pytest-muster/src/pytest_muster/plugin.py spark/answer.py spark/command.py spark/jobs/consumption.py
    spark/jobs/failover.py spark/jobs/lag.py spark/jobs/placement.py spark/jobs/placement_what_if.py
    spark/jobs/rebalance_advice.py spark/jobs/rebalances.py spark/jobs/shared/log_ends.py
    spark/jobs/shared/membership.py spark/render/drawing.py spark/render/report_page.py spark/render/screens/__init__.py
    spark/render/screens/attribution.py spark/render/screens/consumption.py spark/render/screens/failover.py
    spark/render/screens/lag.py spark/render/screens/placement.py spark/render/screens/rebalances.py
    spark/render/screens/screen.py spark/render/showing.py spark/request.py spark/session.py spark/streaming/showing.py
    tests/attribution/bench.py tests/attribution/churn.py tests/attribution/kop/counting.py
    tests/attribution/kop/rules.py tests/attribution/kop/test_kop_rule.py tests/attribution/kop/test_rows_are_told.py
    tests/attribution/kop/test_rows_identified.py tests/attribution/kop/test_rows_keys.py
    tests/attribution/kop/test_rows_lifetime.py tests/attribution/kop/test_rows_served.py
    tests/attribution/kop/test_the_article.py tests/attribution/kop/test_the_article_served.py
    tests/attribution/kop/world.py tests/attribution/test_account.py tests/attribution/test_bench_truth.py
    tests/attribution/test_crowds.py tests/attribution/test_departed.py tests/attribution/test_evidence_rules.py
    tests/attribution/test_hints.py tests/attribution/test_non_members.py tests/attribution/test_offset_continuity.py
    tests/attribution/test_one_to_one.py tests/attribution/test_registration_table.py tests/attribution/test_series.py
    tests/attribution/test_session_shape.py tests/audit/local_sources.py tests/audit/test_auditor.py
    tests/audit/test_books.py tests/audit/test_collecting.py tests/audit/test_with_clients.py tests/audit/world.py
    tests/chaos/__main__.py tests/chaos/harm.py tests/chaos/history.py tests/chaos/observer.py tests/chaos/report.py
    tests/chaos/rules/calls.py tests/chaos/rules/commits.py tests/chaos/rules/records.py
    tests/chaos/tests/test_checker.py tests/chaos/tests/test_planted_bugs.py tests/chaos/workers/aio.py
    tests/chaos/workers/base.py tests/chaos/workers/confluent.py tests/chaos/workers/kafka_python.py
    tests/cli/groups/test_group_history.py tests/cli/test_audit.py tests/cli/test_config.py
    tests/cli/test_coordinator.py tests/cli/test_detach.py tests/cli/test_drain.py tests/cli/test_fault.py
    tests/cli/test_help.py tests/cli/test_lifecycle.py tests/cli/test_mapping.py tests/cli/test_refusals.py
    tests/cli/test_spark_command.py tests/cli/test_spark_stream.py tests/cli/test_tables.py
    tests/cluster/consumer_groups/groups.py tests/cluster/consumer_groups/members.py
    tests/cluster/consumer_groups/test_group_admin.py tests/cluster/consumer_groups/test_group_clients.py
    tests/cluster/consumer_groups/test_groups_cli.py tests/cluster/consumer_groups/test_other_protocols.py
    tests/cluster/test_altered_configs.py tests/cluster/test_attribution.py tests/cluster/test_audit.py
    tests/cluster/test_clients.py tests/cluster/test_failover.py tests/cluster/test_faults.py
    tests/cluster/test_mapping.py tests/cluster/test_odd_names.py tests/cluster/test_standby.py
    tests/cluster/test_topic_changes.py tests/config/test_controller.py tests/conformance/artifacts.py
    tests/conformance/test_acls.py tests/conformance/test_configs.py tests/conformance/test_consumer_groups.py
    tests/conformance/test_kafkajs.py tests/conformance/topics.py tests/controller/test_lifecycle.py
    tests/controller/test_liveness.py tests/controller/test_topics_in_outage.py tests/examples/test_checks.py
    tests/examples/test_child.py tests/faults/test_history.py tests/faults/test_matching.py tests/faults/test_plan.py
    tests/gateway/acl_requests.py tests/gateway/apis/test_acls.py tests/gateway/apis/test_admin_apis.py
    tests/gateway/apis/test_altering_configs.py tests/gateway/apis/test_corrupt_segments.py
    tests/gateway/apis/test_data_apis.py tests/gateway/apis/test_delete_records.py
    tests/gateway/apis/test_describing_apis.py tests/gateway/apis/test_find_coordinator.py
    tests/gateway/apis/test_group_apis.py tests/gateway/apis/test_offset_apis.py
    tests/gateway/apis/test_offset_delete.py tests/gateway/apis/test_transactional_clients.py
    tests/gateway/config_requests.py tests/gateway/fault_client.py tests/gateway/faults/test_fault_answers.py
    tests/gateway/faults/test_fault_clients.py tests/gateway/faults/test_faults.py
    tests/gateway/faults/test_http_faults.py tests/gateway/group_client.py tests/gateway/http/test_http_groups.py
    tests/gateway/http/test_http_lag.py tests/gateway/listener/test_connection.py
    tests/gateway/listener/test_hung_coordinator.py tests/gateway/listener/test_proxy_clients.py
    tests/gateway/listener/test_proxy_header.py tests/gateway/listener/test_request_order.py
    tests/gateway/listener/test_sasl.py tests/gateway/listener/test_sasl_clients.py tests/gateway/local_faults.py
    tests/gateway/metrics/test_conservation.py tests/gateway/metrics/test_fetch_metrics.py
    tests/gateway/metrics/test_grafana.py tests/gateway/metrics/test_group_metrics.py
    tests/gateway/metrics/test_group_tables.py tests/gateway/metrics/test_rebalance_history.py
    tests/gateway/metrics/test_reconciler_metrics.py tests/gateway/serving.py tests/group/driver.py
    tests/group/test_adapters.py tests/group/test_admin.py tests/group/test_clients_of_members.py
    tests/group/test_join.py tests/group/test_journal.py tests/group/test_loading.py tests/group/test_offsets.py
    tests/group/test_rebalance.py tests/group/test_registrations.py tests/group/test_scale.py tests/group/test_static.py
    tests/group/test_timers.py tests/group/test_watchdog.py tests/house/test_versions.py
    tests/log/files/test_corruption.py tests/log/files/test_disk_trouble.py tests/log/files/test_index.py
    tests/log/test_append_times.py tests/log/test_cumulative_size.py tests/log/test_log_history.py
    tests/log/test_service.py tests/nodes/bench.py tests/nodes/lone_host.py tests/nodes/raw.py tests/nodes/ray_host.py
    tests/nodes/test_cut_off.py tests/nodes/test_draining.py tests/nodes/test_ray_up.py tests/nodes/test_two_copies.py
    tests/offsets/test_group_counts.py tests/offsets/test_offsets_shell.py tests/offsets/test_rebalance_history.py
    tests/placement/test_controller_epoch.py tests/placement/test_mirror.py tests/placement/test_repair.py
    tests/placement/test_repair_history.py tests/placement/test_topic_registry.py tests/placement/test_view.py
    tests/placement/test_zookeeper_client.py tests/placement/test_zookeeper_outages.py
    tests/plugin/test_pytest_muster.py tests/reconciler/test_mapping_repair.py tests/reconciler/test_reconciler.py
    tests/reconciler/test_repair_rows.py tests/recording/test_commit_window.py tests/recording/test_group_events.py
    tests/recording/test_group_history.py tests/recording/test_registrations.py tests/restart/test_restart.py
    tests/restart/test_secured.py tests/restart/test_zookeeper_outage.py tests/runtime/test_bound.py
    tests/runtime/test_limited_log.py tests/runtime/test_without_hypothesis.py tests/runtime/test_zookeeper.py
    tests/scenarios/core_world.py tests/scenarios/language.py tests/scenarios/play.py tests/scenarios/socket_world.py
    tests/scenarios/state_tables.py tests/scenarios/suites.py tests/scenarios/test_kafka_scenarios.py
    tests/simulation/actor.py tests/simulation/client.py tests/simulation/consumer.py tests/simulation/ledger.py
    tests/simulation/network.py tests/simulation/offsets_ledger.py tests/simulation/planted/mutants.py
    tests/simulation/rules/about_answers.py tests/simulation/rules/about_groups.py
    tests/simulation/rules/about_members.py tests/simulation/rules/about_memory.py
    tests/simulation/rules/about_offsets.py tests/simulation/rules/invariants.py tests/simulation/run.py
    tests/simulation/strangers.py tests/simulation/view.py tests/simulation/world.py
    tests/spark/jobs/test_attribution_job.py tests/spark/jobs/test_consumption.py tests/spark/jobs/test_edges.py
    tests/spark/jobs/test_failover_job.py tests/spark/jobs/test_lag.py tests/spark/jobs/test_placement_job.py
    tests/spark/jobs/test_reattribution.py tests/spark/jobs/test_rebalances_job.py tests/spark/render/pages.py
    tests/spark/render/test_report_browser.py tests/spark/render/test_report_page.py tests/spark/rows.py
    tests/spark/streaming/test_streaming.py tests/spark/test_answer.py tests/spark/test_command.py
    tests/spark/test_raydp.py tests/spark/test_real_run.py tests/spark/test_sizing.py tests/spark/test_tables.py
    tests/tables/test_compaction.py tests/tables/test_made_up_tables.py tests/tables/test_orphans.py
    tests/tables/test_reading.py tests/tables/test_rebalances.py tests/tables/test_spool.py tests/wire/test_channel.py
    tests/wire/test_codec.py tests/wire/test_questions.py tests/zookeeper_fixture.py tests/zookeeper_sessions.py
"""
NOT_YET = frozenset(_NOT_YET.split())
"""Files that do not follow the list yet. It may only become shorter."""

_HEADING = "## Words\n"


def word_list() -> str:
    """The section of CONTRIBUTING.md, with its heading."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    return _HEADING + page.partition(_HEADING)[2].partition("\n## ")[0]


@functools.cache
def rules() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What must not be in text, and what must not be in names: quoted and in code type in the second column."""
    second = "".join(row.split("|")[2] for row in re.findall(r"^\| [^|\n]+\|[^|\n]+\|$", word_list(), re.MULTILINE))
    text, names = re.findall(r'"([^"]+)"', second), re.findall(r"`([^`]+)`", second)
    assert len(text) > 10
    assert len(names) > 10
    phrases = (r"[\s-]+".join(re.split("[ -]", phrase)) for phrase in text)
    return re.compile(rf"\b(?:{'|'.join(phrases)})s?\b", re.IGNORECASE), re.compile("|".join(map(in_names, names)))


def in_names(word: str) -> str:
    """A pattern: lower case is whole words of any name, snake or camel; a capital means this spelling only."""
    if word.islower():
        camel = word.title().replace("_", "")
        return rf"(?:(?<![A-Za-z])(?i:{word})s?(?![a-z])|{camel}s?(?![a-z]))"
    return rf"(?<![A-Z])(?<![A-Z]_){word}" + (
        "" if word.endswith("_") else "(?![A-Z])" if word.isupper() else "s?(?![a-z])"
    )


def breaches(path: Path) -> list[str]:
    """Every word of a file that is not to be used, with its line where that is known."""
    text = path.read_text()
    if path.suffix == ".md":
        return in_text(text.replace(word_list(), ""))
    return sorted({*python_text(text), *python_names(text)})


def in_text(text: str) -> list[str]:
    """Words outside code type: ``nobody`` in back quotes may be somebody's name."""
    return [found[0] for found in rules()[0].finditer(re.sub(r"(`+)[^`\n]+\1", " code ", text))]


def python_text(source: str) -> Iterator[str]:
    comments = (
        token.string.lstrip("#")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    )
    yield from in_text("".join(comments))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from (f"line {node.lineno}: {word}" for word in in_text(node.value))


def python_names(source: str) -> Iterator[str]:
    for name in {name for node in ast.walk(ast.parse(source)) for name in names_of(node)}:
        if rules()[1].search(name):
            yield f"name {name}"


def names_of(node: ast.AST) -> Iterator[str]:
    for field in ("id", "attr", "arg", "name", "asname", "module"):
        if isinstance(value := getattr(node, field, None), str):
            yield value


@functools.cache
def all_breaches() -> dict[str, list[str]]:
    tops = ("actors", "gateway", "placement", "spark", "tests", "benchmarks", "examples", "pytest-muster")
    python = [path for top in tops for path in (ROOT / top).rglob("*.py")]
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    found = {str(path.relative_to(ROOT)): breaches(path) for path in (*python, *pages) if path != Path(__file__)}
    return {name: words for name, words in sorted(found.items()) if words}


def test_words_are_those_of_the_list() -> None:
    assert not {name: words for name, words in all_breaches().items() if name not in NOT_YET}


def test_files_that_follow_the_list_are_not_excused() -> None:
    assert not NOT_YET - all_breaches().keys()


@pytest.mark.parametrize(
    "source",
    [
        "culprit = 1",
        "class ACulprit: pass",
        "def f(last_culprits): pass",
        "_MOST_ROWS = 1",
        "import muster.culprit",
        "x.culprit()",
        '"""The client is\n    told."""',
        "# A stand-in\n",
        "# It goes\n# on\n",
        "f'{x} was told'",
    ],
)
def test_a_planted_word_is_found(tmp_path: Path, source: str) -> None:
    file = tmp_path / "planted.py"
    file.write_text(source)
    assert breaches(file)


@pytest.mark.parametrize("source", ["ALMOST_ROWS = 'told'", "# ``told``, a name\n", "taskset = 1", "namespace = 1"])
def test_other_words_are_not(tmp_path: Path, source: str) -> None:
    file = tmp_path / "clean.py"
    file.write_text(source)
    assert not breaches(file)
