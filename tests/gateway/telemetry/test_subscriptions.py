"""Which client pushes what: the configs of subscriptions, and the clients that match them."""

from __future__ import annotations

from uuid import UUID

import pytest

from muster.actors.config.client_metrics import InvalidSubscription, check_client_metrics
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.telemetry.subscriptions import Client, Wanted, subscriptions_of, wanted_of

CLIENT = Client(UUID(int=7), "reader-1", "apache-kafka-java", "4.3.0", "10.0.0.9", 4711)


def wanted(client: Client = CLIENT, **configs: dict[str, str]) -> Wanted:
    return wanted_of(client, subscriptions_of(configs))


def config(metrics: str = "a", **others: str) -> dict[str, str]:
    return {"metrics": metrics, **{name.replace("_", "."): value for name, value in others.items()}}


def test_without_a_subscription_nothing_is_pushed() -> None:
    assert wanted()[1:] == ((), 300_000)


def test_matching_subscriptions_add_up() -> None:
    found = wanted(
        one=config("org.b,org.a", interval_ms="9000"),
        two=config("org.c", interval_ms="5000", match="client_id=reader-.*, client_source_port=4711"),
        three=config("org.d", interval_ms="1000", match="client_id=reader"),
    )
    assert found[1:] == (("org.a", "org.b", "org.c"), 5_000)


def test_all_metrics_are_one_name() -> None:
    assert wanted(one=config("*"), two=config("org.a"))[1:] == (("*",), 300_000)


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        ("", True),
        ("client_id=reader-1", True),
        ("client_id=reader", False),
        ("client_software_name=apache-.*,client_software_version=4\\..*", True),
        ("client_software_name=apache-.*,client_software_version=3\\..*", False),
        ("client_source_address=10\\.0\\.0\\.[0-9]", True),
        (f"client_instance_id={UUID(int=7)}", True),
    ],
)
def test_what_matches(match: str, matches: bool) -> None:
    assert bool(wanted(one=config("a", match=match)).metrics) == matches


def test_the_subscription_id_changes_with_what_is_wanted_and_with_the_instance() -> None:
    of_one = wanted(one=config("a"))
    assert of_one == wanted(other=config("a"))
    others = [
        wanted(one=config("b")),
        wanted(one=config("a", interval_ms="1000")),
        wanted(CLIENT._replace(client_instance_id=UUID(int=8)), one=config("a")),
    ]
    assert len({each.subscription_id for each in (of_one, *others)}) == 4
    assert all(-(2**31) <= each.subscription_id < 2**31 for each in others)


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"nope": "1"}, ErrorCode.invalid_request),
        ({"interval.ms": "99"}, ErrorCode.invalid_request),
        ({"interval.ms": "3600001"}, ErrorCode.invalid_request),
        ({"interval.ms": "soon"}, ErrorCode.invalid_config),
        ({"match": "client_id"}, ErrorCode.invalid_config),
        ({"match": "client_id=a=b"}, ErrorCode.invalid_config),
        ({"match": "colour=red"}, ErrorCode.invalid_config),
        ({"match": "client_id=("}, ErrorCode.invalid_config),
    ],
)
def test_configs_that_are_refused(config: dict[str, str], code: ErrorCode) -> None:
    with pytest.raises(InvalidSubscription) as refused:
        check_client_metrics(config)
    assert refused.value.code is code
    check_client_metrics({"metrics": "org.a,org.b", "interval.ms": "100", "match": "client_id=.*"})
