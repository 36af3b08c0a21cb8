"""How the text of a property becomes a value, and the error messages when it does not."""

from __future__ import annotations

import math
import re
import types
import typing
from collections.abc import Container, Mapping
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


class InvalidValue(ValueError):
    """Why a value is refused: in Muster's words, and in those of Kafka's ConfigDef, for admin clients."""

    def __init__(self, says: str, kafka_says: str, value: str | None = None) -> None:
        """``kafka_says`` may name ``{name}`` and ``{type}``; ``value`` is what is wrong, if not all of it."""
        super().__init__(says)
        self.kafka_says = kafka_says
        self.value = value


_NO_NUMBER = "Not a number of type {type}"


def _integer(value: Any) -> Any:
    if isinstance(value, str):
        if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", value):
            raise InvalidValue("is not a whole number", _NO_NUMBER)
        return int(value)
    return value


def _number(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise InvalidValue("is not a number", _NO_NUMBER) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidValue("is not a number", _NO_NUMBER)
    return value


def _boolean(value: Any) -> Any:
    if isinstance(value, str):
        lowered = value.strip().lower()
        if lowered not in ("true", "false"):
            raise InvalidValue("is neither true nor false", "Expected value to be either true or false")
        return lowered == "true"
    return value


def _text(value: Any) -> Any:
    if isinstance(value, str):
        value = value.strip()
        if not value:
            raise ValueError("is empty")
    return value


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _one_of(*allowed: str) -> AfterValidator:
    def check(value: str) -> str:
        if value not in allowed:
            raise InvalidValue(f"is none of {', '.join(allowed)}", f"String must be one of: {', '.join(allowed)}")
        return value

    return AfterValidator(check)


def _policies(value: str) -> str:
    named = [part.strip() for part in value.split(",")] if value else []
    if wrong := [each for each in named if each not in ("delete", "compact")]:
        says = "is none of delete, compact, both with a comma, and nothing"
        raise InvalidValue(says, "String must be one of: compact, delete", wrong[0])
    return ",".join(dict.fromkeys(named))


def _gzip_level(value: int) -> int:
    if value != -1 and not 1 <= value <= 9:
        raise InvalidValue("is neither -1 nor between 1 and 9", "Value must be between 1 and 9 or equal to -1")
    return value


def _throttled_replicas(value: str) -> str:
    named = [part.strip() for part in value.split(",") if part.strip()]
    if named != ["*"] and not all(re.fullmatch(r"[0-9]+:[0-9]+", each) for each in named):
        form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        raise InvalidValue(
            f"is neither * nor {form}",
            f"{{name}} must be the literal '*' or a list of replicas in the following format: {form}",
            f"[{', '.join(named)}]",
        )
    return ",".join(named)


def _listing(*allowed: str, required: str = "") -> AfterValidator:
    """Return the validator of a comma-separated list of some of these, without duplicates, in its order."""

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
GzipLevel = Annotated[Int, AfterValidator(_gzip_level)]
ThrottledReplicas = Annotated[str, AfterValidator(_throttled_replicas), ConfigType.LIST]
CleanupPolicy = Annotated[str, BeforeValidator(_stripped), AfterValidator(_policies), ConfigType.LIST]
TimestampType = Annotated[str, BeforeValidator(_stripped), _one_of("CreateTime", "LogAppendTime"), ConfigType.STRING]
COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
Compression = Annotated[str, BeforeValidator(_stripped), _one_of(*COMPRESSION_TYPES), ConfigType.STRING]


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


def kafka_problems_of(error: ValidationError, types: Mapping[str, ConfigType]) -> list[str]:
    """Return the problems in the words of Kafka's ConfigDef, by the ``types`` of the configs."""
    return [_kafka_sentence(problem, types) for problem in error.errors()]


def _kafka_sentence(problem: Any, types: Mapping[str, ConfigType]) -> str:
    name, value, context = problem["loc"][0], problem["input"], problem.get("ctx", {})
    number = float if types[name] is ConfigType.DOUBLE else int
    cause = context.get("error")
    match problem["type"]:
        case "greater_than_equal" if context["ge"] not in _SMALLEST:
            says, value = f"Value must be at least {context['ge']}", number(value)
        case "less_than_equal" if context["le"] not in _LARGEST:
            says, value = f"Value must be no more than {context['le']}", number(value)
        case "value_error" if isinstance(cause, InvalidValue):
            says, value = cause.kafka_says, value if cause.value is None else cause.value
        case _:
            says = _NO_NUMBER
    says = says.format(name=name, type=types[name].name)
    return f"Invalid value {value} for configuration {name}: {says}"


_SMALLEST, _LARGEST = (-(2**31), -(2**63)), (2**31 - 1, 2**63 - 1)
"""Bounds of the types themselves, INT and LONG."""


def text_of(value: Any) -> str | None:
    """Return a value's text in a property file; None for a password."""
    if value is None or isinstance(value, SecretStr):
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def type_of(field: FieldInfo) -> ConfigType:
    """Kafka's type of the config that this field declares."""
    declared = [field.annotation, *field.metadata]
    if typing.get_origin(field.annotation) in (typing.Union, types.UnionType):
        declared += [part for choice in typing.get_args(field.annotation) for part in typing.get_args(choice)]
    return next((part for part in declared if isinstance(part, ConfigType)), ConfigType.STRING)
