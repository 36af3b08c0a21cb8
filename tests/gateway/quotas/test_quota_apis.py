"""DescribeClientQuotas and AlterClientQuotas, and what changes of quotas do to administrative requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from muster.actors.wire.kafka.codec import ErrorCode, versions_of
from muster.placement.security.entities import Entity, EntityAlteration
from tests.gateway.quotas.requests import limit
from tests.gateway.serving import Client, Serving

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, DESCRIBE, ALTER = 19, 20, 37, 48, 49
USER, CLIENT, IP = "user", "client-id", "ip"
EXACT, DEFAULT, SPECIFIED = 0, 1, 2
OK, REFUSED = ErrorCode.none, ErrorCode.invalid_request
NONE = 0

Parts = Sequence[tuple[str, str | None]]
Op = tuple[str, float | None]


def alter(served: Serving, *entries: tuple[Parts, Sequence[Op]], version: int = 1, validate: bool = False) -> list[Any]:
    """Alter quotas; return the result of each entry. A value of None removes the quota."""
    body = {
        "entries": [
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in parts],
                "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in operations],
            }
            for parts, operations in entries
        ],
        "validate_only": validate,
    }
    return list(served.exchange(ALTER, version, body).entries)


def describe(served: Serving, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> Any:
    body = {
        "components": [{"entity_type": kind, "match_type": match, "match": name} for kind, match, name in components],
        "strict": strict,
    }
    return served.exchange(DESCRIBE, version, body)


def quotas(response: Any) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    assert response.error_code is OK, response.error_message
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {v.key: v.value for v in entry.values}
        for entry in response.entries
    }


@pytest.mark.parametrize("version", versions_of(ALTER))
def test_what_is_altered_is_described(served: Serving, version: int) -> None:
    wanted: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {
        ((USER, "u"),): {"producer_byte_rate": 1024.0, "request_percentage": 12.5},
        ((USER, "u"), (CLIENT, "c")): {"consumer_byte_rate": 1e6},
        ((USER, "u"), (CLIENT, None)): {"consumer_byte_rate": 2e6},
        ((USER, None),): {"controller_mutation_rate": 0.5},
        ((CLIENT, "<default>"),): {"producer_byte_rate": 1.0},
        ((CLIENT, None),): {"producer_byte_rate": 2.0},
        ((IP, "10.0.0.1"),): {"connection_creation_rate": 3.0},
        ((IP, None),): {"connection_creation_rate": 4.0},
    }
    done = alter(served, *[(parts, list(values.items())) for parts, values in wanted.items()], version=version)
    assert [each.error_code for each in done] == [OK] * len(wanted)
    assert [tuple((p.entity_type, p.entity_name) for p in each.entity) for each in done] == list(wanted)
    assert quotas(describe(served, version=version)) == wanted


def selected(served: Serving, *components: tuple[str, int, str | None], strict: bool = False) -> set[str]:
    found = quotas(describe(served, *components, strict=strict))
    return {" ".join(name or "*" for _, name in parts) for parts in found}


def test_what_a_filter_selects(served: Serving) -> None:
    one = [("producer_byte_rate", 1.0)]
    every: list[Parts] = [
        [(USER, "u")],
        [(USER, None)],
        [(USER, "u"), (CLIENT, "c")],
        [(USER, None), (CLIENT, "c")],
        [(USER, "u"), (CLIENT, None)],
        [(CLIENT, "c")],
    ]
    assert {each.error_code for each in alter(served, *[(parts, one) for parts in every])} == {OK}
    assert len(selected(served)) == 6
    assert selected(served, (USER, EXACT, "u")) == {"u", "u c", "u *"}
    assert selected(served, (USER, EXACT, "u"), strict=True) == {"u"}
    assert selected(served, (USER, DEFAULT, None)) == {"*", "* c"}
    assert selected(served, (USER, SPECIFIED, None), strict=True) == {"u", "*"}
    assert selected(served, (USER, SPECIFIED, None), (CLIENT, EXACT, "c")) == {"u c", "* c"}
    assert selected(served, (CLIENT, EXACT, "c"), strict=True) == {"c"}
    assert selected(served, strict=True) == set()


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("", EXACT, "u")], REFUSED),
        ([(USER, EXACT, "u"), (USER, EXACT, "v")], REFUSED),
        ([(IP, EXACT, "10.0.0.1"), (USER, EXACT, "u")], REFUSED),
        ([("group", EXACT, "g")], ErrorCode.unsupported_version),
        ([(USER, EXACT, None)], REFUSED),
        ([(USER, DEFAULT, "u")], REFUSED),
        ([(USER, SPECIFIED, "u")], REFUSED),
        ([(USER, 3, None)], REFUSED),
    ],
)
def test_filters_that_are_refused(
    served: Serving, components: list[tuple[str, int, str | None]], error: ErrorCode
) -> None:
    response = describe(served, *components)
    assert (response.error_code, response.entries) == (error, None)
    assert response.error_message


REFUSALS: list[tuple[Parts, list[Op]]] = [
    ([], [("producer_byte_rate", 1.0)]),
    ([(USER, "u"), (USER, "v")], [("producer_byte_rate", 1.0)]),
    ([("group", "g")], [("producer_byte_rate", 1.0)]),
    ([(USER, "")], [("producer_byte_rate", 1.0)]),
    ([(USER, "u"), (IP, "10.0.0.1")], [("producer_byte_rate", 1.0)]),
    ([(IP, "no such host.invalid")], [("connection_creation_rate", 1.0)]),
    ([(IP, "10.0.0.1")], [("producer_byte_rate", 1.0)]),
    ([(USER, "u")], [("connection_creation_rate", 1.0)]),
    ([(USER, "u")], [("SCRAM-SHA-256", 1.0)]),
    ([(USER, "u")], [("producer_byte_rate", 1.0), ("producer_byte_rate", None)]),
    ([(USER, "u")], [("producer_byte_rate", -1.0)]),
    ([(USER, "u")], [("request_percentage", float("nan"))]),
    ([(USER, "u")], [("request_percentage", float("inf"))]),
    ([(USER, "u")], [("producer_byte_rate", 1.5)]),
    ([(USER, "u")], [("producer_byte_rate", 1e300)]),
    ([(USER, "u")], [("producer_byte_rate", 1e-9)]),
]


def test_entries_that_are_refused_do_not_disturb_the_others(served: Serving) -> None:
    good: tuple[Parts, list[Op]] = ([(CLIENT, "c")], [("producer_byte_rate", 7.0)])
    done = alter(served, good, *REFUSALS)
    assert [each.error_code for each in done] == [OK, *[REFUSED] * len(REFUSALS)]
    assert all(each.error_message for each in done[1:])
    assert quotas(describe(served)) == {((CLIENT, "c"),): {"producer_byte_rate": 7.0}}


def test_what_is_not_there_can_be_removed(served: Serving) -> None:
    alter(served, ([(USER, "u")], [("producer_byte_rate", 1.0), ("consumer_byte_rate", 2.0)]))
    done = alter(
        served, ([(USER, "u")], [("producer_byte_rate", None), ("request_percentage", None)]), ([(USER, "v")], [])
    )
    assert [each.error_code for each in done] == [OK, OK]
    assert quotas(describe(served)) == {((USER, "u"),): {"consumer_byte_rate": 2.0}}


def test_validation_changes_nothing(served: Serving) -> None:
    done = alter(served, ([(USER, "u")], [("producer_byte_rate", 1.0)]), REFUSALS[0], validate=True)
    assert [each.error_code for each in done] == [OK, REFUSED]
    assert quotas(describe(served)) == {}


def test_credentials_of_a_user_are_kept_and_not_shown(served: Serving) -> None:
    async def add() -> None:
        change = EntityAlteration(entity=Entity.of_user("u"), set={"SCRAM-SHA-256": "salt=x,stored_key=y"})
        await served.controller.alter_entities([change])

    served.run(add())
    alter(served, ([(USER, "u")], [("producer_byte_rate", 1.0)]))
    assert quotas(describe(served)) == {((USER, "u"),): {"producer_byte_rate": 1.0}}
    alter(served, ([(USER, "u")], [("producer_byte_rate", None)]))
    assert quotas(describe(served)) == {}
    assert served.controller.entities.load() == {Entity.of_user("u"): {"SCRAM-SHA-256": "salt=x,stored_key=y"}}


def test_without_a_controller_nothing_is_claimed(served: Serving) -> None:
    served.controller.away = True
    (done,) = alter(served, ([(USER, "u")], [("producer_byte_rate", 1.0)]))
    assert done.error_code is ErrorCode.request_timed_out


def create(client: Client, version: int, *topics: tuple[str, int], validate: bool = False) -> Any:
    items = [
        {"name": name, "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []}
        for name, count in topics
    ]
    return client.exchange(CREATE_TOPICS, version, {"topics": items, "timeout": 10_000, "validate_only": validate})


def errors(results: Iterable[Any]) -> list[ErrorCode]:
    return [result.error_code for result in results]


THROTTLED = ErrorCode.throttling_quota_exceeded


def test_a_strict_client_that_has_overdrawn_its_bucket_is_refused(served: Serving) -> None:
    limit(served, Entity.of_user("ANONYMOUS"), controller_mutation_rate=2.0)
    assert create(served.client, 7, ("valid", 500), validate=True).throttle_time == NONE
    response = create(served.client, 7, ("a", 30), ("b", 1))
    assert errors(response.topics) == [OK, THROTTLED]
    assert response.topics[1].error_message
    assert 3_500 <= response.throttle_time <= 4_000
    assert "b" not in served.gateway.view.topics
    body = {"topics": [{"name": "a", "count": 31, "assignments": None}], "timeout": 10_000, "validate_only": False}
    with served.connect() as other:
        response = other.exchange(CREATE_PARTITIONS, 3, body)
        assert (errors(response.results), response.throttle_time > NONE) == ([THROTTLED], True)
    with served.connect() as other:
        response = other.exchange(DELETE_TOPICS, 5, {"topic_names": ["a"], "timeout": 10_000})
        assert (errors(response.responses), response.throttle_time > NONE) == ([THROTTLED], True)
    with served.connect() as other:
        topics = [{"name": "a", "topic_id": None}]
        assert errors(other.exchange(DELETE_TOPICS, 6, {"topics": topics, "timeout": 10_000}).responses) == [THROTTLED]
    assert served.gateway.view.topics["a"].partitions == 30
    limit(served, Entity.of_user("ANONYMOUS"), controller_mutation_rate=1e6)
    assert create(served.client, 7, ("c", 3)).throttle_time == NONE


def test_an_older_client_is_served_and_throttled(served: Serving) -> None:
    limit(served, Entity.of_user("ANONYMOUS"), controller_mutation_rate=2.0)
    with served.connect() as first, served.connect() as second, served.connect() as third:
        response = create(first, 5, ("a", 30))
        assert (errors(response.topics), response.throttle_time > NONE) == ([OK], True)
        body = {"topics": [{"name": "a", "count": 31, "assignments": None}], "timeout": 10_000, "validate_only": False}
        response = second.exchange(CREATE_PARTITIONS, 2, body)
        assert (errors(response.results), response.throttle_time > NONE) == ([OK], True)
        response = third.exchange(DELETE_TOPICS, 4, {"topic_names": ["a"], "timeout": 10_000})
        assert (errors(response.responses), response.throttle_time > 18_000) == ([OK], True)
    assert "a" not in served.gateway.view.topics


def test_refused_topics_cost_nothing(served: Serving) -> None:
    limit(served, Entity.of_user("ANONYMOUS"), controller_mutation_rate=1.0)
    assert errors(create(served.client, 7, ("bad name", 500)).topics) == [ErrorCode.invalid_topic_exception]
    assert create(served.client, 7, ("good", 1)).throttle_time == NONE
