"""Every metric family that a gateway exposes. The table in docs/metrics.md is generated from here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

_COORDINATOR = "kafka.server:type=group-coordinator-metrics,name="
_MANAGER = "kafka.coordinator.group:type=GroupMetadataManager,name="
_REQUESTS = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request="
_OF_ACTOR = "Since the coordinator's actor started."
_OF_AUDIT = "Since the audit's process began to watch the group's partition."


@dataclass(frozen=True, slots=True)
class Family:
    """A metric family."""

    name: str
    """Name in queries: that of a counter ends with ``_total``."""
    kind: str
    """OpenMetrics' type: counter, gauge, histogram, summary or unknown."""
    labels: tuple[str, ...]
    """All but the first, which is ``gateway``, or ``cluster`` with KoP's names."""
    help: str


def _family(kind: str, series: str, text: str) -> Family:
    """``series`` is the name with the labels, as in queries: ``name{label,label}``."""
    name, _, labels = series.removesuffix("}").partition("{")
    return Family(name, kind, tuple(labels.split(",")) if labels else (), text)


_counter = partial(_family, "counter")
_gauge = partial(_family, "gauge")
_histogram = partial(_family, "histogram")
_summary = partial(_family, "summary")
_unknown = partial(_family, "unknown")

FETCH = (
    _counter(
        "muster_fetch_bytes_total{topic,partition}",
        "Bytes of record batches handed to sockets in Fetch answers.",
    ),
    _counter(
        "muster_group_fetch_bytes_total{group,topic,partition,evidence}",
        "Bytes of record batches fetched by a consumer group; evidence tells how the group is known.",
    ),
    _counter(
        "muster_unattributed_fetch_bytes_total{reason,topic,partition}",
        "Bytes of record batches fetched by clients of an unknown group, or (overflow) by a group without a series; "
        "reason tells why.",
    ),
    _gauge(
        "muster_pending_fetch_bytes{topic,partition}",
        "Bytes of record batches sent that still wait for evidence of their group.",
    ),
    _gauge(
        "muster_removed_group_fetch_bytes{topic,partition}",
        "Bytes of record batches that were counted in series of groups that are gone "
        "(metrics.group.series.retention.ms).",
    ),
    _counter("muster_fetch_messages_total{topic,partition}", "Records handed to sockets in Fetch answers."),
    _counter(
        "muster_group_fetch_messages_total{group,topic,partition,evidence}",
        "Records fetched by a consumer group; evidence tells how the group is known.",
    ),
    _counter(
        "muster_unattributed_fetch_messages_total{reason,topic,partition}",
        "Records fetched by clients of an unknown group, or (overflow) by a group without a series; reason tells why.",
    ),
    _gauge(
        "muster_pending_fetch_messages{topic,partition}",
        "Records sent that still wait for evidence of their group.",
    ),
    _gauge(
        "muster_removed_group_fetch_messages{topic,partition}",
        "Records that were counted in series of groups that are gone (metrics.group.series.retention.ms).",
    ),
    _counter(
        "muster_principal_fetch_bytes_total{principal,topic}",
        "Bytes of record batches fetched by a principal; beyond 10,000 series, those of the others have an empty one.",
    ),
    _counter("muster_principal_fetch_messages_total{principal,topic}", "Records fetched by a principal."),
    _gauge(
        "muster_folded_group_series",
        "Series of group, topic, partition and evidence that metrics.max.group.series keeps out, counted up to that "
        "number; their bytes have the reason overflow.",
    ),
)
"""Bytes and messages that were fetched (muster.gateway.metrics.fetch)."""

KOP = (
    _unknown(
        "kop_server_BYTES_OUT{group,partition,topic}",
        'Bytes of record batches that were fetched. A counter; group="" when the group is not known.',
    ),
    _unknown(
        "kop_server_MESSAGE_OUT{group,partition,topic}",
        'Records that were fetched. A counter; group="" when the group is not known.',
    ),
    _unknown(
        "kop_server_ENTRIES_OUT{group,partition,topic}",
        'Record batches that were fetched. A counter; group="" when the group is not known.',
    ),
)
"""KoP's names for the same (muster.gateway.metrics.fetch). Their first label is ``cluster``."""

GATEWAY = (
    _counter("muster_requests_total{api,version,error}", "Requests answered."),
    _histogram(
        "muster_request_duration_seconds{api}",
        "Time from a request's last byte in to its answer's hand-over to the socket, waiting included.",
    ),
    _counter("muster_produce_bytes_total{topic}", "Bytes of record batches appended."),
    _counter("muster_produce_messages_total{topic}", "Records appended."),
    _gauge("muster_incremental_fetch_sessions", "Fetch sessions (max.incremental.fetch.session.cache.slots)."),
    _gauge("muster_incremental_fetch_partitions_cached", "Partitions in the fetch sessions, when each was last used."),
    _counter("muster_incremental_fetch_session_evictions_total", "Fetch sessions that had to give way to others."),
    _gauge("muster_connections", "Client connections that are open."),
    _counter("muster_connections_opened_total", "Client connections accepted."),
    _counter(
        "muster_connections_closed_total{reason}",
        "Client connections that were closed for a reason; the log has the first, and the number of those that "
        "followed.",
    ),
    _counter("muster_successful_authentications_total{listener}", "First logins of connections, by SASL."),
    _counter("muster_failed_authentications_total{listener}", "Logins by SASL that failed."),
    _counter(
        "muster_successful_authentications_no_reauth_total{listener}",
        "Logins of clients that cannot authenticate again: they are cut off when their session ends.",
    ),
    _counter(
        "muster_successful_reauthentications_total{listener}",
        "Clients that authenticated again on their connection (KIP-368).",
    ),
    _counter(
        "muster_failed_reauthentications_total{listener}",
        "Clients that failed to authenticate again on their connection.",
    ),
    _summary("muster_reauthentication_duration_seconds{listener}", "How long clients took to authenticate again."),
    _counter(
        "muster_expired_connections_killed_total{listener}",
        "Connections that were closed because their session had ended (connections.max.reauth.ms).",
    ),
    _gauge(
        "muster_tls_certificate_days_left{listener}",
        "Days until the certificate of that listener expires; METRICS is the HTTP port.",
    ),
    _counter("muster_received_bytes_total", "Bytes received from clients."),
    _counter("muster_sent_bytes_total", "Bytes handed to clients' sockets."),
    _counter(
        "muster_forward_errors_total{actor}",
        "Requests that could not be forwarded to an actor, or whose answer did not come.",
    ),
    _counter(
        "muster_group_metrics_scrape_errors_total{actor}",
        "Coordinators that did not respond to a scrape in time; that scrape is without their groups or transactions.",
    ),
    _counter(
        "muster_faults_injected_total{action,api,actor}",
        "Faults that acted on a request of that API, or were done to that actor (fault.injection.enable).",
    ),
    _gauge(
        "muster_actor_connected{actor}",
        "1 while this gateway is connected to that log actor or coordinator, or to the standby in its place.",
    ),
    _gauge("muster_controller_connected", "1 while the controller responds to this gateway."),
    _gauge("muster_storage_free_bytes", "Bytes that are free in the file system of storage.path, on this node."),
    _gauge("muster_storage_size_bytes", "Size of the file system of storage.path, on this node."),
    _gauge("muster_controller_epoch", "Epoch of the controller whose view is in use."),
    _gauge("muster_view_version", "Version of the cluster view in use."),
    _gauge("muster_acls", "ACLs in force at this gateway; Kafka's acls-total-count."),
    _counter(
        "muster_authorizations_total{result}",
        "Decisions on requests of clients, allowed or denied; Kafka has their rates per minute.",
    ),
    _gauge("muster_registrations", "Clients that the group coordinators named to this gateway."),
    _gauge(
        "muster_ambiguous_clients",
        "Pairs of host and client id that clients of several groups of one principal share, in the whole cluster; a "
        "client.id of its own makes a client certain.",
    ),
    _gauge("muster_zookeeper_connected", "1 while this gateway is connected to ZooKeeper."),
    _counter("muster_zookeeper_outages_total", "Times that this gateway lost its connection to ZooKeeper."),
)
"""Families that a gateway itself counts (muster.gateway.metrics.gateway)."""

CLIENTS = (
    _gauge(
        "muster_client_metric_value{group,client_id,client_instance_id,metric,attributes}",
        "A gauge that a client has pushed (KIP-714); group is empty if it is not known. Absent soon after the client.",
    ),
    _counter(
        "muster_client_metric_total{group,client_id,client_instance_id,metric,attributes}",
        "A counter that a client has pushed, since its first push to this gateway.",
    ),
    _gauge("muster_client_instances", "Clients that have requested their subscription to metrics."),
    _counter("muster_client_metric_pushes_total{error}", "PushTelemetry requests, by Kafka's name of the error."),
    _counter(
        "muster_client_metric_points_left_out_total",
        "Pushed values without a series (metrics.max.client.series).",
    ),
)
"""Families that clients push (muster.gateway.metrics.clients)."""

_SHARED_BY = "{quota,user,client_id,group}"
QUOTAS = (
    _counter(
        f"muster_quota_throttled_responses_total{_SHARED_BY}",
        "Responses after which clients had to pause, by the quota's user, client id or group; beyond 1000 of these, "
        "all labels but quota are empty.",
    ),
    _counter(f"muster_quota_throttle_seconds_total{_SHARED_BY}", "Sum of the throttle times of these responses."),
    _gauge("muster_quota_measures", "Live measures of clients and groups with a quota."),
    _counter(
        "muster_quota_exempt_request_seconds_total",
        "Time for requests that no quota limits, of clients with a request_percentage.",
    ),
    _counter(
        "muster_connection_accept_throttle_seconds_total",
        "Time for which no connections were accepted (max.connection.creation.rate).",
    ),
)
"""Families of quotas and limits (muster.gateway.metrics.clients)."""

GROUPS = (
    _gauge(
        "muster_group_state{group,state}",
        "1 for the state that the group is in, 0 for the others, named as in DescribeGroups or ConsumerGroupDescribe.",
    ),
    _gauge("muster_group_members{group}", "Members of the group."),
    _gauge(
        "muster_group_pending_members{group}",
        "Member ids handed out to new members that have not joined with them yet (KIP-394).",
    ),
    _gauge("muster_group_generation{group}", "The group's generation id; of a consumer group, its epoch."),
    _gauge(
        "muster_group_assigned_partitions{group}",
        "Partitions assigned to the members; during a rebalance, those they had before it. Absent unless the "
        "protocol type is consumer.",
    ),
    _gauge(
        "muster_group_offsets{group}",
        f"Partitions with a committed offset. Kafka: {_MANAGER}NumOffsets, of the whole broker.",
    ),
    _gauge(
        "muster_group_rebalance_running_seconds{group}",
        "How long the rebalance has been running. Absent when none runs.",
    ),
    _counter(
        "muster_group_rebalances_completed_total{group}",
        "Rebalances that ended with the assignment in the log (of a consumer group: with all members at their target), "
        "not those that left the group Empty or began anew "
        f"before their end. {_OF_ACTOR} Kafka: {_COORDINATOR}group-completed-rebalance-count.",
    ),
    _counter(
        "muster_group_joins_total{group}",
        f"JoinGroup requests accepted, of new members and of known ones. {_OF_ACTOR} Kafka: {_REQUESTS}JoinGroup, "
        "refused ones too.",
    ),
    _counter(
        "muster_group_syncs_total{group}",
        f"SyncGroup requests accepted. {_OF_ACTOR} Kafka: {_REQUESTS}SyncGroup, refused ones too.",
    ),
    _counter(
        "muster_group_leaves_total{group}",
        f"Members that left by LeaveGroup or a heartbeat. {_OF_ACTOR} Kafka: {_REQUESTS}LeaveGroup, by request.",
    ),
    _counter(
        "muster_group_offset_commits_total{group}",
        f"Partitions whose offset was committed. {_OF_ACTOR} Kafka: {_COORDINATOR}offset-commit-count.",
    ),
    _counter(
        "muster_group_offset_expirations_total{group}",
        f"Offsets that expired. {_OF_ACTOR} Kafka: {_COORDINATOR}offset-expiration-count.",
    ),
    _counter(
        "muster_group_offset_deletions_total{group}",
        f"Offsets deleted by OffsetDelete or with their topic, not by DeleteGroups. {_OF_ACTOR} Kafka: "
        f"{_COORDINATOR}offset-deletion-count.",
    ),
    _counter(
        "muster_group_rebalances_started_total{group,cause}",
        f"Rebalances begun, by cause; a cause is absent until it occurs. {_OF_ACTOR}",
    ),
    _summary(
        "muster_group_rebalance_duration_seconds{group}",
        "Duration of completed rebalances, from the first reason to rebalance until the assignment is in the log; "
        f"sum and count only. {_OF_ACTOR}",
    ),
    _counter(
        "muster_group_member_expiries_total{group,cause}",
        "Members removed without their asking, by cause (no heartbeat in time: session expired); a cause is absent "
        f"until it occurs. {_OF_ACTOR}",
    ),
    _counter(
        "muster_group_coordinator_moves_total{group}",
        "Times that the group's coordinator was started anew since its first start, here or on another node: the "
        "leader epoch of its partition, the first being 0. Outlives the actor.",
    ),
    _histogram(
        "muster_coordinator_rebalance_duration_seconds{offsets_partition}",
        f"Duration of completed rebalances of all groups, those deleted since too. {_OF_ACTOR}",
    ),
    _gauge(
        "muster_coordinator_groups{offsets_partition,state}",
        f"Groups by state. Kafka: {_MANAGER}NumGroups, NumGroupsStable, NumGroupsPreparingRebalance and so on; "
        f"{_COORDINATOR}group-count.",
    ),
    _gauge(
        "muster_coordinator_offsets{offsets_partition}",
        f"Committed offsets of all groups. Kafka: {_MANAGER}NumOffsets.",
    ),
    _gauge(
        "muster_coordinator_load_seconds{offsets_partition}",
        "Time from the first record replayed until the coordinator was active, at its last start. Kafka: "
        f"{_COORDINATOR}partition-load-time-max.",
    ),
    _gauge(
        "muster_coordinator_partitions{state}",
        "Partitions of __consumer_offsets that FindCoordinator gives to this gateway and that were ever used: "
        f"active, or loading (or down). Kafka: {_COORDINATOR}num-partitions.",
    ),
    _gauge(
        "muster_log_corrupt_segments{log}",
        "Segments that the log actor has set aside as corrupt or misses, in the partitions that it has open.",
    ),
)
"""Families that coordinators and logs report (muster.gateway.metrics.groups)."""

LAG = (
    _gauge(
        "muster_group_lag_messages{group,topic,partition}",
        "Messages from the group's committed offset to the end of the partition's log. Offsets are counted, as by "
        "Kafka's tools.",
    ),
    _gauge(
        "muster_group_lag_seconds{group,topic,partition}",
        "Age of the first record that the group has not consumed, by the clock of its log; absent if that is unknown.",
    ),
    _gauge("muster_group_total_lag_messages{group}", "Lag of the group, summed over its partitions."),
    _gauge("muster_group_max_lag_seconds{group}", "Largest lag among the group's partitions."),
    _gauge("muster_group_partitions_behind{group}", "Partitions in which the group has a lag."),
    _gauge(
        "muster_group_partitions_without_commit{group}",
        "Partitions that members have, with messages, and that the group has not committed an offset of: they are in "
        "no lag.",
    ),
    _gauge(
        "muster_folded_lag_series",
        "Partitions of groups that metrics.max.group.series keeps out; they count in the series of their group.",
    ),
)
"""How far groups are behind (muster.gateway.lag.metrics). Gone with the group."""

TRANSACTIONS = (
    _gauge(
        "muster_transactional_ids{transactions_partition,state}",
        "Transactional ids by the state of their latest transaction.",
    ),
    _gauge(
        "muster_transaction_oldest_seconds{transactions_partition}",
        "Age of the oldest transaction that is ongoing, or whose markers are not all written; 0 without one. Readers "
        "of committed records wait for it. Kafka: PartitionsWithLateTransactionsCount.",
    ),
    _counter(
        "muster_transactions_completed_total{transactions_partition,outcome}",
        f"Transactions that are complete, by outcome: commit or abort. {_OF_ACTOR}",
    ),
    _counter(
        "muster_transactions_fenced_total{transactions_partition,cause}",
        f"Transactions that the coordinator aborted itself, by cause; a cause is absent until it occurs. {_OF_ACTOR}",
    ),
    _counter(
        "muster_transaction_markers_failed_total{transactions_partition}",
        f"Markers that a partition did not take; they are sent again. {_OF_ACTOR} Kafka: UnknownDestinationQueueSize.",
    ),
    _gauge(
        "muster_transaction_coordinator_load_seconds{transactions_partition}",
        "Time from the first record replayed until the coordinator was active, at its last start. Kafka: "
        "kafka.server:type=transaction-coordinator-metrics,name=partition-load-time-max.",
    ),
)
"""Families that coordinators of transactions report (muster.gateway.metrics.transactions)."""

AUDIT = (
    _counter(
        "muster_audit_implied_bytes_total{group,topic,partition}",
        f"Bytes of the batches that the group's commits passed, each once. {_OF_AUDIT}",
    ),
    _counter(
        "muster_audit_attributed_bytes_total{group,topic,partition}",
        f"Bytes that gateways sent for the group, reported to the audit once their attribution was final. {_OF_AUDIT}",
    ),
    _gauge(
        "muster_audit_drift_bytes{group,topic,partition,cause}",
        "Difference of these two by cause: attributed - implied = prefetch + reread + retention + mislabelled - "
        "(waiting + unknown + admin_commit + reset + mislabelled_elsewhere + lost). lost, mislabelled and "
        "mislabelled_elsewhere are unexplained; a cause is absent while it is 0.",
    ),
    _counter(
        "muster_audit_removed_offsets_total{group,topic,partition}",
        f"Offsets that the group's commits passed unread, and that were gone from the log by then. {_OF_AUDIT}",
    ),
    _counter("muster_audit_rounds_total", "Rounds of the audit, since its process started."),
    _counter(
        "muster_audit_incomplete_rounds_total",
        "Rounds in which not every gateway responded, so that nothing new was judged.",
    ),
    _gauge(
        "muster_audit_partitions_left_out",
        "Partitions of groups that are in the report and not here, beyond metrics.max.group.series.",
    ),
)
"""The latest report of the audit (muster.gateway.metrics.audit)."""

RECONCILER = (
    _counter(
        "muster_reconciler_rounds_total{outcome}",
        "Rounds of the reconciler: done, skipped (ZooKeeper was away) or failed. Since its actor started, as the "
        "others.",
    ),
    _counter(
        "muster_reconciler_repairs_total{action,kind}",
        "Nodes that the reconciler created, set or removed: of a registration, KoP's flat ones (kop), and those of "
        "hosts and clients (folder).",
    ),
    _counter(
        "muster_reconciler_repairs_missed_total{reason}",
        "Repairs that were not done: too late, since another client wrote the node first, or refused, since it is "
        "too large for ZooKeeper.",
    ),
    _gauge(
        "muster_reconciler_deferred_repairs",
        "Repairs that the last round left to the next one because of reconciler.max.writes.per.second.",
    ),
    _gauge(
        "muster_reconciler_divergences{difference,kind}",
        "Nodes that the last round found missing, wrong, newer than what the coordinator says, or stale (no member's).",
    ),
    _gauge(
        "muster_reconciler_oldest_divergence_seconds",
        "Age of the oldest difference that is still there; 0 without one.",
    ),
    _gauge("muster_reconciler_suspects", "Nodes that are removed or overwritten if the next round finds the same."),
    _gauge(
        "muster_reconciler_left_alone{reason}",
        "Nodes that are not judged: their coordinator is not Active (not_active), or nothing tells whose they are "
        "(unreadable).",
    ),
    _gauge("muster_reconciler_trusted_partitions", "Partitions of __consumer_offsets whose coordinators are Active."),
    _gauge("muster_reconciler_last_round_seconds", "Duration of the last round, its writes included."),
    _counter("muster_reconciler_node_reads_total", "Nodes of the mapping that were read because they came or changed."),
    _counter(
        "muster_reconciler_full_reads_total",
        "Times that the whole mapping was read, as after a lost connection.",
    ),
    _gauge("muster_reconciler_dry_run", "1 where reconciler.dry.run is set: rounds write nothing."),
    _gauge("muster_reconciler_zookeeper_connected", "1 while the reconciler is connected to ZooKeeper."),
)
"""The state of the reconciler (muster.gateway.metrics.reconciler)."""
FAMILIES = (*FETCH, *KOP, *GATEWAY, *CLIENTS, *QUOTAS, *GROUPS, *LAG, *TRANSACTIONS, *AUDIT, *RECONCILER)
