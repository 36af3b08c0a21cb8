"""The model of KoP's rule does what KoP's code does, including its errors."""

from __future__ import annotations

import pytest

from tests.attribution.kop.kop_rule import ROOT, KopRule, MemoryStore, java_address, node_path

ADDRESS = java_address("10.0.0.1", 5_555)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def broker(store: MemoryStore) -> KopRule:
    return KopRule(store)


@pytest.mark.parametrize(
    ("host", "printed"),
    [
        ("10.0.0.1", "/10.0.0.1:5555"),
        ("::1", "/[0:0:0:0:0:0:0:1]:5555"),
        ("2001:db8::a:0:1", "/[2001:db8:0:0:0:a:0:1]:5555"),
        ("::ffff:10.0.0.1", "/10.0.0.1:5555"),
        ("fe80::1%eth0", "/[fe80:0:0:0:0:0:0:1%eth0]:5555"),
    ],
)
def test_addresses_print_as_in_java(host: str, printed: str) -> None:
    assert java_address(host, 5_555) == printed


def test_a_resolved_address_prints_its_name_first() -> None:
    assert java_address("10.0.0.1", 5_555, name="worker-7") == "worker-7/10.0.0.1:5555"


@pytest.mark.parametrize(
    ("address", "client_id", "path"),
    [
        (ADDRESS, "rdkafka", "/client_group_id/10.0.0.1-rdkafka"),
        (ADDRESS, None, "/client_group_id/10.0.0.1-null"),
        (ADDRESS, "", "/client_group_id/10.0.0.1-"),
        (java_address("2001:db8::1", 1), "rdkafka", "/client_group_id/[2001-rdkafka"),
        (java_address("10.0.0.1", 1, name="w"), "rdkafka", "/client_group_id/w/10.0.0.1-rdkafka"),
    ],
)
def test_nodes_are_named_as_in_kop(address: str, client_id: str | None, path: str) -> None:
    assert node_path(address, client_id) == path


def test_a_fetch_is_labelled_with_the_group_that_was_looked_up_last(broker: KopRule) -> None:
    assert broker.found_coordinator("bootstrap", ADDRESS, "c", ["a", "b"])
    assert broker.label("fetch", java_address("10.0.0.1", 6_666), "c") == "b"


def test_the_first_label_stays_with_the_connection(broker: KopRule) -> None:
    assert broker.label("fetch", ADDRESS, "c") == ""
    broker.found_coordinator("bootstrap", ADDRESS, "c", ["a"])
    assert broker.label("fetch", ADDRESS, "c") == ""
    assert broker.label("fetch", ADDRESS, "another client id") == ""
    broker.closed("fetch")
    assert broker.label("fetch", ADDRESS, "c") == "a"


def test_a_failed_read_stays_with_the_connection_too(broker: KopRule, store: MemoryStore) -> None:
    broker.found_coordinator("bootstrap", ADDRESS, "c", ["a"])
    store.available = False
    assert broker.label("fetch", ADDRESS, "c") == ""
    store.available = True
    assert broker.label("fetch", ADDRESS, "c") == ""


def test_a_close_deletes_the_nodes_of_every_client_id_of_the_connection(broker: KopRule, store: MemoryStore) -> None:
    broker.found_coordinator("bootstrap", ADDRESS, "c", ["a"])
    broker.found_coordinator("bootstrap", ADDRESS, "d", ["a"])
    KopRule(store).found_coordinator("elsewhere", ADDRESS, "c", ["of another client"])
    broker.closed("bootstrap")
    broker.closed("bootstrap")
    assert store.nodes == {ROOT: b""}


def test_a_close_deletes_nothing_where_no_coordinator_was_looked_up(broker: KopRule, store: MemoryStore) -> None:
    broker.found_coordinator("bootstrap", ADDRESS, "c", ["a"])
    assert broker.label("fetch", ADDRESS, "c") == "a"
    broker.closed("fetch")
    assert broker.label("another fetch", ADDRESS, "c") == "a"


def test_a_look_up_without_client_id_is_never_answered(broker: KopRule, store: MemoryStore) -> None:
    assert not broker.found_coordinator("bootstrap", ADDRESS, None, ["a"])
    assert not store.nodes


def test_a_failed_write_is_only_a_warning(broker: KopRule, store: MemoryStore) -> None:
    store.available = False
    assert broker.found_coordinator("bootstrap", ADDRESS, "c", ["a"])
    broker.closed("bootstrap")
    store.available = True
    assert not store.nodes


@pytest.mark.parametrize("client_id", ["a/", "a//b", "/../b", "a/./b", "a\tb", "a\x00", "\ue000"])
def test_paths_that_zookeeper_refuses_are_never_written(broker: KopRule, store: MemoryStore, client_id: str) -> None:
    assert broker.found_coordinator("bootstrap", ADDRESS, client_id, ["a"])
    assert not store.nodes
    assert broker.label("fetch", ADDRESS, client_id) == ""


def test_a_slash_leaves_debris(broker: KopRule, store: MemoryStore) -> None:
    broker.found_coordinator("bootstrap", ADDRESS, "a/b", ["g"])
    broker.closed("bootstrap")
    assert list(store.nodes) == [f"{ROOT}/10.0.0.1-a", ROOT]
