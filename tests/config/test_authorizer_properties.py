"""Properties of authorization."""

from __future__ import annotations

import pytest

from muster.actors.config import ConfigError, MusterConfig

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
WITH_LOGIN = {
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.credentials.file": "/users",
    "listeners": "PLAINTEXT://:1,SASL_PLAINTEXT://:2",
}


def config(**properties: str) -> MusterConfig:
    return MusterConfig.from_properties({name.replace("_", "."): value for name, value in properties.items()})


def test_super_users() -> None:
    named = config(super_users=" User:a; User:CN=b,O=c:d ;;User:a")
    assert named.super_user_principals == {"User:a", "User:CN=b,O=c:d"}
    assert config().super_user_principals == frozenset()


@pytest.mark.parametrize("name", [STANDARD, "kafka.security.authorizer.AclAuthorizer", ""])
def test_authorizers(name: str) -> None:
    assert config(authorizer_class_name=name, super_users="User:a").authorizer_class_name == name


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"authorizer_class_name": "com.example.Mine"}, "authorizer.class.name=com.example.Mine is not empty and none"),
        ({"super_users": "User:a;admin"}, "has admin, which is not TYPE:NAME, for example User:admin"),
        ({"authorizer_class_name": STANDARD}, "no client could ever create an ACL"),
    ],
)
def test_what_is_refused(properties: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        config(**properties)


@pytest.mark.parametrize("others", [{"super.users": "User:a"}, {"allow.everyone.if.no.acl.found": "true"}, WITH_LOGIN])
def test_someone_can_create_acls(others: dict[str, str]) -> None:
    assert MusterConfig.from_properties({"authorizer.class.name": STANDARD, **others}).authorizer_class_name
