"""Properties of one listener and of one of its mechanisms, and the precedence between them."""

from __future__ import annotations

import pickle

import pytest

from muster.actors.config import ConfigError, MusterConfig, describe_broker, overrides
from muster.actors.config.altering import Alteration, Change, InvalidAlteration, Operation, configs_after
from muster.actors.config.dynamic import altered
from muster.actors.config.resources import ResourceType
from muster.placement.view import DynamicConfigs

TWO = {"listeners": "INNER://:9092,OUTER://:9094", "listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:PLAINTEXT"}
SECRET = "open sesame"


def test_the_most_specific_value_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "connections.max.idle.ms"
    monkeypatch.setattr(overrides, "OF_A_LISTENER", overrides.OF_A_LISTENER | {key})
    monkeypatch.setattr(overrides, "OF_A_MECHANISM", frozenset({key}))
    config = MusterConfig.from_properties(
        {
            **TWO,
            key: "1000",
            f"listener.name.outer.{key}": "2000",
            f"listener.name.outer.scram-sha-256.{key}": "3000",
        }
    )
    values = [
        config.of_listener("INNER", key),
        config.of_listener("INNER", key, "SCRAM-SHA-256"),
        config.of_listener("OUTER", key),
        config.of_listener("OUTER", key, "PLAIN"),
        config.of_listener("OUTER", key, "SCRAM-SHA-256"),
    ]
    assert values == [1000, 1000, 2000, 2000, 3000]


def test_no_text_of_a_configuration_contains_a_password() -> None:
    config = MusterConfig.from_properties(
        {**TWO, "ssl.key.password": SECRET, "listener.name.outer.ssl.keystore.password": SECRET}
    )
    for copy in (config, altered(config, {"max.connections": "9"}), pickle.loads(pickle.dumps(config))):
        assert copy.of_listener("OUTER", "ssl.keystore.password").get_secret_value() == SECRET
        assert SECRET not in f"{copy!r} {copy.properties} {describe_broker(copy)}"
    rows = {row.name: row for row in describe_broker(config)}
    for name in ("ssl.key.password", "listener.name.outer.ssl.keystore.password"):
        assert (rows[name].value, rows[name].is_sensitive, rows[name].source.name) == (
            None,
            True,
            "STATIC_BROKER_CONFIG",
        )


def test_a_password_that_is_refused_is_not_in_the_message() -> None:
    with pytest.raises(ConfigError) as refused:
        MusterConfig.from_properties(
            {"ssl.key.password": {SECRET: SECRET}, "listener.name.plaintext.ssl.keystore.key": [SECRET]}
        )
    assert "ssl.key.password" in str(refused.value)
    assert SECRET not in f"{refused.value} {refused.value.__cause__!r} {refused.value.__context__!r}"


def alteration(name: str, value: str) -> Alteration:
    return Alteration(ResourceType.BROKER, "1", (Change(name, Operation.SET, value),))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("listener.name.outer.ssl.key.password", "ZooKeeper would keep passwords and keys as they are"),
        ("ssl.keystore.key", "ZooKeeper would keep passwords and keys as they are"),
        ("listener.name.outer.ssl.client.auth", "Cannot update these configs dynamically: [listener.name.outer.ssl.cl"),
        ("ssl.keystore.location", "Cannot update these configs dynamically: [ssl.keystore.location]"),
        ("listener.name.other.ssl.keystore.location", "is for none of the listeners; their names in it are inner, out"),
        ("listener.name.outer.no.such.thing", "unknown property listener.name.outer.no.such.thing"),
    ],
)
def test_what_cannot_be_altered_of_one_listener(name: str, message: str) -> None:
    config = MusterConfig.from_properties(TWO)
    with pytest.raises(InvalidAlteration) as refused:
        configs_after(alteration(name, SECRET), {}, config, DynamicConfigs())
    assert message in str(refused.value)
    assert SECRET not in str(refused.value)


def test_the_location_of_a_store_can_be_altered_for_a_gateway() -> None:
    name = "listener.name.outer.ssl.keystore.location"
    config = MusterConfig.from_properties(TWO | {name: "/old"})
    wanted = configs_after(alteration(name, "/new"), {}, config, DynamicConfigs())
    assert wanted == {name: "/new"}
    row = next(row for row in describe_broker(config, DynamicConfigs(brokers={1: wanted}), 1) if row.name == name)
    assert (row.value, row.source.name, row.read_only) == ("/new", "DYNAMIC_BROKER_CONFIG", False)
    assert [synonym.value for synonym in row.synonyms] == ["/new", "/old"]
