"""The types of a fault's fields: what each takes, what is said of what it does not take, and its JSON schema."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

from kio.schema.errors import ErrorCode
from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError, WithJsonSchema, WrapValidator
from pydantic.dataclasses import dataclass

from muster.actors.faults.apis import NAMED_BY

ALWAYS, ONCE = "always", "once"
_LARGEST = 2**53 - 1
"""Whole numbers that JSON carries everywhere."""
_ACTOR = r"(?:console|controller|reconciler|(?:offsets|transactions|log|gateway|standby)-[0-9]+)"
_ERRORS = {code.name.upper(): code for code in ErrorCode if code is not ErrorCode.none}


def near_miss(value: Any, known: Iterable[str]) -> str:
    """`` (did you mean X?)``, or nothing."""
    by_case = {name.lower(): name for name in known}
    nearest = difflib.get_close_matches(str(value).lower(), by_case, n=1, cutoff=0.6)
    return f" (did you mean {by_case[nearest[0]]}?)" if nearest else ""


def unknown(value: Any, known: Iterable[str]) -> str:
    """Return the message for a name that is none of these."""
    names = sorted(known)
    return f"{value!r} is not known{near_miss(value, names)}; there are {', '.join(names)}"


def error_code(name: str) -> ErrorCode:
    """Return the code of an error's name in a fault."""
    return _ERRORS[name]


def _else(text: str | Callable[[Any], str]) -> WrapValidator:
    """Return a validator with one message for every value that the type refuses."""

    def check(value: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise ValueError(text if isinstance(text, str) else text(value)) from None

    return WrapValidator(check)


def _no_actor(value: Any) -> str:
    kinds = ("console", "controller", "reconciler", "offsets-", "transactions-", "log-", "gateway-", "standby-")
    hint = near_miss(re.sub(r"\d+$", "", str(value)), kinds)
    return (
        f"{value!r} is no actor{hint}; there are console, controller, reconciler, offsets-P, transactions-P, log-I, "
        "gateway-G, standby-N, as in muster status"
    )


def _api(value: Any) -> Any:
    if not isinstance(value, str) or value not in NAMED_BY:
        raise ValueError(unknown(value, NAMED_BY))
    return value


def _number_of_gateway(value: Any) -> Any:
    found = re.fullmatch(r"(?:gateway-)?(\d{1,9})", value) if isinstance(value, str) else None
    return int(found[1]) if found else value


def _name_of_error(value: Any) -> str:
    if type(value) is int or (isinstance(value, str) and re.fullmatch(r"-?\d{1,5}", value)):
        by_number = {int(code): name for name, code in _ERRORS.items()}
        if int(value) not in by_number:
            raise ValueError(f"{value} is no error code of Kafka (0 is NONE, which is no error)")
        return by_number[int(value)]
    if isinstance(value, str) and value.upper() in _ERRORS:
        return value.upper()
    if str(value).upper() == "NONE":
        raise ValueError("NONE is no error")
    hint = near_miss(value, _ERRORS)
    raise ValueError(f"{value!r} is no error of Kafka{hint}; give a name such as NOT_COORDINATOR, or its number")


Text = Annotated[str, Field(strict=True, min_length=1), _else("has to be a text that is not empty")]
FromZero = Annotated[int, Field(strict=True, ge=0, le=_LARGEST), _else("has to be a whole number from 0")]
FromOne = Annotated[int, Field(strict=True, ge=1, le=_LARGEST), _else("has to be a whole number from 1")]
Seed = Annotated[
    int, Field(strict=True, ge=-_LARGEST, le=_LARGEST), _else(f"has to be a whole number from {-_LARGEST}")
]
Fraction = Annotated[float, Field(strict=True, gt=0, lt=1), _else("has to be a number between 0 and 1, both excluded")]
Chance = Annotated[float, Field(strict=True, gt=0, le=1), _else("has to be a number from 0 (excluded) to 1")]
Actor = Annotated[str, Field(strict=True, pattern=f"^{_ACTOR}$"), _else(_no_actor)]
Api = Annotated[str, BeforeValidator(_api), WithJsonSchema({"type": "string", "enum": list(NAMED_BY)})]
Gateway = Annotated[FromOne, BeforeValidator(_number_of_gateway)]
Error = Annotated[
    str,
    BeforeValidator(_name_of_error),
    WithJsonSchema({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
]
"""Kept as Kafka's name of the error in capitals; a number stands for it too."""
Phase = Annotated[
    Literal["before", "after"],
    _else(lambda value: unknown(value, ("before", "after"))),
]


@dataclass(frozen=True, slots=True, config={"extra": "forbid"})
class Nth:
    """The n-th request that matches."""

    nth: FromOne


@dataclass(frozen=True, slots=True, config={"extra": "forbid"})
class Probability:
    """Each request that matches with this probability; the seed and the number of the match decide."""

    probability: Chance
    seed: Seed


def _kind_of_when(value: Any) -> str | None:
    if isinstance(value, str | Nth | Probability):
        return type(value).__name__
    if isinstance(value, dict):
        return next((kind for name, kind in (("nth", "Nth"), ("probability", "Probability")) if name in value), None)
    return None


WHEN = 'always, once, {"nth": N} or {"probability": P, "seed": S}'
When = Annotated[
    Annotated[Literal["always", "once"], Tag("str")]
    | Annotated[Nth, Tag("Nth")]
    | Annotated[Probability, Tag("Probability")],
    Discriminator(_kind_of_when),
]
