"""The worlds that can be simulated, and how much of each is enough."""

from __future__ import annotations

from tests.simulation import base_world
from tests.simulation.consumer_groups import mutants as of_consumer_groups
from tests.simulation.consumer_groups.world import World as ConsumerGroupsWorld
from tests.simulation.planted import coordinator, offsets_in_transactions
from tests.simulation.processes import mutants as of_processes
from tests.simulation.processes import world as processes
from tests.simulation.running import WorldKind
from tests.simulation.transactions import mutants as of_transactions
from tests.simulation.transactions import world as transactions
from tests.simulation.wal import mutants as of_wal
from tests.simulation.wal import world as wal
from tests.simulation.wal.world import World as WalWorld
from tests.simulation.world import World as CoordinatorWorld

COORDINATOR = WorldKind(
    name="group coordinator",
    option=None,
    about="the group coordinator, its log and its clients",
    create=lambda seed, trace_all: CoordinatorWorld(seed, trace_all=trace_all),
    steps=base_world.STEPS,
    total="{core_steps} steps of the coordinator",
    few_seeds=25,
    many_seeds=200,
    reaches={
        "acknowledged": 50,
        "ended": 2,
        "AssignmentStored": 2,
        "GroupDeleted": 0.1,
        "MemberExpired": 0.1,
        "MemberLeft": 0.1,
        "OffsetsDeleted": 0.1,
        "OffsetsExpired": 0.1,
        "PartitionLoaded": 0.1,
        "StaticMemberReplaced": 0.1,
    },
    mutants=[*coordinator.MUTANTS, *offsets_in_transactions.MUTANTS],
)

PROCESSES = WorldKind(
    name="processes",
    option="processes",
    about="copies of an offsets actor, ZooKeeper and a disk instead",
    create=lambda seed, trace_all: processes.World(seed, trace_all=trace_all),
    steps=processes.STEPS,
    total="{acknowledged} acknowledged commits",
    few_seeds=4,
    many_seeds=12,
    reaches={"acknowledged": 50, "fetched": 50, "opened": 4, "refused by the log": 1, "sessions expired": 1},
    mutants=of_processes.MUTANTS,
    mutants_begin={  # seed 0 shows them too late, by everything_gets_well
        "the_claim_is_not_checked": 1,
        "claims_of_lower_epochs_are_kept": 1,
        "a_fenced_error_is_swallowed": 1,
    },
    mutant_seeds=60,
)

TRANSACTIONS = WorldKind(
    name="transactions",
    option="transactions",
    about="a transaction coordinator, producers and partitions instead",
    create=lambda seed, trace_all: transactions.World(seed, trace_all=trace_all),
    steps=transactions.STEPS,
    total="{committed} known commits",
    few_seeds=10,
    many_seeds=60,
    reaches={
        "committed": 5,
        "TransactionCompleted": 10,
        "MarkerFailed": 0.1,
        "PartitionLoaded": 0.1,
        "TransactionFenced": 0.1,
        "TransactionalIdsExpired": 0.1,
    },
    mutants=of_transactions.MUTANTS,
)

CONSUMER_GROUPS = WorldKind(
    name="consumer groups",
    option="consumer-groups",
    about="groups of KIP-848, beside and with classic ones, instead",
    create=lambda seed, trace_all: ConsumerGroupsWorld(seed, trace_all=trace_all),
    steps=base_world.STEPS,
    total="{core_steps} steps of the coordinator",
    few_seeds=8,
    many_seeds=60,
    reaches={
        "MemberReconciled": 20,
        "PartitionLoaded": 1,
        "GroupConverted": 0.1,
        "GroupDeleted": 0.1,
        "MemberExpired": 0.1,
        "MemberLeft": 0.1,
        "RebalanceStuck": 0.1,
        "StaticMemberReplaced": 0.1,
        "AssignmentStored": 0.1,
        "did not rejoin in time": 0.1,
        "fenced_instance_id": 0.1,
        "joins with partitions": 1,
        "leaves": 1,
        "unreleased_instance_id": 0.1,
    },
    mutants=of_consumer_groups.MUTANTS,
    mutants_begin={
        "who_joins_stays_registered_though_the_conversion_fails": 29,
        "what_a_cooperative_consumer_owns_is_not_read": 47,
        "heartbeats_of_the_classic_protocol_do_not_notice_new_partitions": 249,
        "a_registration_is_overtaken_by_one_of_before_a_conversion": 5_000_155,
    },
)

WAL = WorldKind(
    name="wal",
    option="wal",
    about="writers that take over a write-ahead log in object storage instead",
    create=lambda seed, trace_all: WalWorld(seed, trace_all=trace_all),
    steps=wal.STEPS,
    total="{acknowledged} acknowledged appends",
    few_seeds=20,
    many_seeds=400,
    reaches={"acknowledged": 50, "opened": 5, "collections": 5, "gave up": 5},
    mutants=of_wal.MUTANTS,
    mutants_begin={"a_number_that_was_freed_is_not_noticed": 3_020},
)

WORLDS = (COORDINATOR, PROCESSES, TRANSACTIONS, CONSUMER_GROUPS, WAL)
