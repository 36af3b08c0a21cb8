"""How the text of a property becomes a value, and the error messages when it does not."""

from __future__ import annotations

import math
import re
import types
import typing
from collections.abc import Container
from enum import IntEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo


class ConfigType(IntEnum):
    """Kafka's config types, as numbered by DescribeConfigs v3+."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


List = ConfigType.LIST
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""Kafka's authorizers that decide by ACLs: in controller mode, and with ZooKeeper."""


def _integer(value: Any) -> Any:
    if isinstance(value, str):
        if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", value):
            raise ValueError("is not a whole number")
        return int(value)
    return value


def _number(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise ValueError("is not a number") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("is not a number")
    return value


def _boolean(value: Any) -> Any:
    if isinstance(value, str):
        lowered = value.strip().lower()
        if lowered not in ("true", "false"):
            raise ValueError("is neither true nor false")
        return lowered == "true"
    return value


def _text(value: Any) -> Any:
    if isinstance(value, str):
        value = value.strip()
        if not value:
            raise ValueError("is empty")
    return value


def _one_of(*allowed: str) -> AfterValidator:
    def check(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"is none of {', '.join(allowed)}")
        return value

    return AfterValidator(check)


def _policies(value: str) -> str:
    named = [part.strip() for part in value.split(",")]
    if not set(named) <= {"delete", "compact"}:
        raise ValueError("is none of delete, compact, and both with a comma")
    return ",".join(dict.fromkeys(named))


def _listing(*allowed: str, required: str = "") -> AfterValidator:
    """A comma-separated list of some of these, without duplicates, in its order."""

    def check(value: str) -> str:
        named = [part.strip() for part in value.split(",")]
        if not set(named) <= {*allowed}:
            raise ValueError(f"is none of {', '.join(allowed)}, nor several of them with commas")
        if required and required not in named:
            raise ValueError(f"must contain {required}")
        return ",".join(dict.fromkeys(named))

    return AfterValidator(check)


def _mechanisms(value: str) -> str:
    named = [part.strip().upper() for part in value.split(",") if part.strip()]
    if not set(named) <= set(SASL_MECHANISMS):
        raise ValueError(f"is not empty and none of {', '.join(SASL_MECHANISMS)}, nor several of them with commas")
    return ",".join(dict.fromkeys(named))


def _super_users(value: str) -> str:
    named = [part.strip() for part in value.split(";") if part.strip()]
    for principal in named:
        if ":" not in principal:
            raise ValueError(f"has {principal}, which is not TYPE:NAME, for example User:{principal}")
    return ";".join(dict.fromkeys(named))


def _authorizer_class(value: str) -> str:
    if value.strip() not in ("", *AUTHORIZERS):
        raise ValueError(f"is not empty and none of {', '.join(AUTHORIZERS)}")
    return value.strip()


Bool = Annotated[bool, BeforeValidator(_boolean), ConfigType.BOOLEAN]
Int = Annotated[int, BeforeValidator(_integer), Field(ge=-(2**31), le=2**31 - 1), ConfigType.INT]
Long = Annotated[int, BeforeValidator(_integer), Field(ge=-(2**63), le=2**63 - 1), ConfigType.LONG]
Double = Annotated[float, BeforeValidator(_number), ConfigType.DOUBLE]
Text = Annotated[str, BeforeValidator(_text), ConfigType.STRING]
Password = Annotated[SecretStr, ConfigType.PASSWORD]
"""Never shown: not by ``repr``, not in messages, not by DescribeConfigs."""
Mechanisms = Annotated[str, AfterValidator(_mechanisms), ConfigType.LIST]
Names = Annotated[str, ConfigType.LIST]
SuperUsers = Annotated[str, AfterValidator(_super_users), ConfigType.STRING]
AuthorizerClass = Annotated[str, AfterValidator(_authorizer_class), ConfigType.STRING]
TlsVersions = Annotated[str, BeforeValidator(_text), _listing("TLSv1.2", "TLSv1.3"), ConfigType.LIST]
ClientAuth = Annotated[
    str,
    BeforeValidator(lambda value: _text(value).lower()),
    _one_of("none", "requested", "required"),
    ConfigType.STRING,
]
HttpProtocol = Annotated[
    str, BeforeValidator(lambda value: _text(value).upper()), _one_of("PLAINTEXT", "SSL"), ConfigType.STRING
]
StoreType = Annotated[str, BeforeValidator(lambda value: _text(value).upper()), ConfigType.STRING]
Suites = Annotated[str, BeforeValidator(_text), ConfigType.LIST]
RebalanceProtocols = Annotated[
    str, BeforeValidator(_text), _listing("classic", "consumer", required="classic"), ConfigType.LIST
]
Assignors = Annotated[str, BeforeValidator(_text), _listing("uniform", "range"), ConfigType.LIST]
MigrationPolicy = Annotated[
    str,
    BeforeValidator(lambda value: _text(value).lower()),
    _one_of("bidirectional", "upgrade", "downgrade", "disabled"),
    ConfigType.STRING,
]
CleanupPolicy = Annotated[str, BeforeValidator(_text), AfterValidator(_policies), ConfigType.LIST]
TimestampType = Annotated[str, BeforeValidator(_text), _one_of("CreateTime", "LogAppendTime"), ConfigType.STRING]
COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
Compression = Annotated[str, BeforeValidator(_text), _one_of(*COMPRESSION_TYPES), ConfigType.STRING]


def problems_of(error: ValidationError, secret: Container[str] = ()) -> list[str]:
    """One sentence for each problem, starting with the property's name and value; not the value of ``secret`` ones."""
    return [_sentence(problem, secret) for problem in error.errors()]


def _sentence(problem: Any, secret: Container[str]) -> str:
    context = problem.get("ctx", {})
    match problem["type"]:
        case "greater_than_equal":
            says = f"must be at least {context['ge']}"
        case "less_than_equal":
            says = f"must be at most {context['le']}"
        case "literal_error":
            says = f"must be {context['expected']}"
        case "value_error":
            says = str(context["error"])
        case _:
            says = problem["msg"]
    if not problem["loc"]:
        return says
    name = problem["loc"][0]
    return f"{name} {says}" if name in secret else f"{name}={problem['input']} {says}"


def text_of(value: Any) -> str | None:
    """A value as written in a property file; None for a password."""
    if value is None or isinstance(value, SecretStr):
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def type_of(field: FieldInfo) -> ConfigType:
    """Kafka's type of the config that this field declares."""
    declared = [field.annotation, *field.metadata]
    if typing.get_origin(field.annotation) in (typing.Union, types.UnionType):
        declared += [part for choice in typing.get_args(field.annotation) for part in typing.get_args(choice)]
    return next((part for part in declared if isinstance(part, ConfigType)), ConfigType.STRING)
