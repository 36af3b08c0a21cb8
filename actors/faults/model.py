"""One fault: what is done, to whom, when, and for how long. Checked when it is made.

:data:`FIELDS` is the one table of its fields: checks, JSON, the command's options and the OpenAPI description come
from it. Pure: no clock, no randomness, no I/O.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode

from muster.actors.faults.apis import NAMED_BY
from muster.actors.faults.errors import InvalidFault

ERROR, NO_ANSWER, DROP, DELAY, CLOSE = "error", "no-answer", "drop", "delay", "close"
KILL, PAUSE, CONTINUE, SLOW = "kill", "pause", "continue", "slow"
ACTIONS: Mapping[str, str] = {
    KILL: "SIGKILL to the actor's process.",
    PAUSE: "SIGSTOP to the actor's process, until the fault is cleared or expires.",
    CONTINUE: "SIGCONT to the actor's process; ends its pause and slow faults.",
    SLOW: "The actor's process runs the fraction `speed` of the time, by SIGSTOP and SIGCONT.",
    ERROR: "The request is answered with `error`, in every place where its response has one.",
    NO_ANSWER: "The request is never answered, nor is any later one of its connection, which stays open.",
    DROP: "The request or its answer is lost; the connection and its later requests go on.",
    DELAY: "The request is served, or answered, `delay_ms` later; later ones of its connection wait behind it.",
    CLOSE: "The connection is closed in place of an answer, after the answers before it.",
}
ACTOR_ACTIONS = frozenset({KILL, PAUSE, CONTINUE, SLOW})
LASTING = frozenset({PAUSE, SLOW})
"""Actor faults that hold until they are cleared or expire; the others are over at once."""
PHASES: Mapping[str, str] = {
    "before": "The request is not served.",
    "after": "The request is served and takes effect; its answer is what the fault changes.",
}
ALWAYS, ONCE = "always", "once"
_ACTOR = re.compile(r"controller|reconciler|(offsets|log|gateway|standby)-\d+")
_LARGEST = 2**53 - 1
"""Whole numbers that JSON carries everywhere."""
_ERRORS = {code.name.upper(): code for code in ErrorCode if code is not ErrorCode.none}
When = str | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a fault. ``check`` gives the value as it is kept, or raises a ValueError that says why not."""

    schema: Mapping[str, Any]
    description: str
    check: Callable[[Any], Any]


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("has to be a text that is not empty")
    return value


def _whole(least: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if type(value) is not int or not least <= value <= _LARGEST:
            raise ValueError(f"has to be a whole number from {least}")
        return value

    return check


def _one_of(names: Iterable[str]) -> Callable[[Any], str]:
    known = sorted(names)

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"{value!r} is not known{near_miss(value, known)}; there are {', '.join(known)}")
        return value

    return check


def near_miss(value: Any, known: Iterable[str]) -> str:
    """`` (did you mean X?)``, or nothing."""
    by_case = {name.lower(): name for name in known}
    nearest = difflib.get_close_matches(str(value).lower(), by_case, n=1, cutoff=0.6)
    return f" (did you mean {by_case[nearest[0]]}?)" if nearest else ""


def _actor(value: Any) -> str:
    if not isinstance(value, str) or not _ACTOR.fullmatch(value):
        kinds = ("controller", "reconciler", "offsets-", "log-", "gateway-", "standby-")
        hint = near_miss(re.sub(r"\d+$", "", str(value)), kinds)
        raise ValueError(
            f"{value!r} is no actor{hint}; there are controller, reconciler, offsets-P, log-I, gateway-G, standby-N, "
            "as in muster status"
        )
    return value


def _gateway(value: Any) -> int:
    if isinstance(value, str) and (found := re.fullmatch(r"(?:gateway-)?(\d{1,9})", value)):
        value = int(found[1])
    return _whole(1)(value)


def _error(value: Any) -> str:
    """Kafka's name of the error. A number stands for it too."""
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
    raise ValueError(f"{value!r} is no error of Kafka{hint}; say a name as NOT_COORDINATOR, or its number")


def _fraction(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ValueError("has to be a number between 0 and 1, both excluded")
    return float(value)


_WHEN = 'always, once, {"nth": N} or {"probability": P, "seed": S}'


def _when(value: Any) -> When:
    match value:
        case "always" | "once":
            return str(value)
        case {"nth": nth, **rest} if not rest:
            return {"nth": _inner("nth", _whole(1), nth)}
        case {"probability": p, "seed": seed, **rest} if not rest:
            return {
                "probability": _inner("probability", _probability, p),
                "seed": _inner("seed", _whole(-_LARGEST), seed),
            }
        case {"probability": _, **rest} if not rest:
            raise ValueError("a probability needs a seed, so that it can be replayed")
    raise ValueError(f"has to be {_WHEN}")


def _inner(name: str, check: Callable[[Any], Any], value: Any) -> Any:
    try:
        return check(value)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None


def _probability(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise ValueError("has to be a number from 0 (excluded) to 1")
    return float(value)


_TEXT: Mapping[str, Any] = {"type": "string", "minLength": 1}


def _number(least: int) -> Mapping[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": _LARGEST}


def _names(names: Iterable[str]) -> Mapping[str, Any]:
    return {"type": "string", "enum": list(names)}


_WHEN_SCHEMA: Mapping[str, Any] = {
    "oneOf": [
        {"type": "string", "enum": [ALWAYS, ONCE]},
        {
            "type": "object",
            "properties": {"nth": {"type": "integer", "minimum": 1}},
            "required": ["nth"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {
                "probability": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
                "seed": {"type": "integer", "minimum": -_LARGEST, "maximum": _LARGEST},
            },
            "required": ["probability", "seed"],
            "additionalProperties": False,
        },
    ],
    "default": ALWAYS,
}

FIELDS: Mapping[str, Field] = {
    "action": Field(_names(ACTIONS), "What is done.", _one_of(ACTIONS)),
    "actor": Field(
        {"type": "string", "pattern": f"^({_ACTOR.pattern})$"},
        "Actor faults: its name in muster status, as offsets-9 or controller.",
        _actor,
    ),
    "group": Field(
        _TEXT, "Requests that name this group. Of an actor fault: the offsets actor that owns the group.", _text
    ),
    "member": Field(_TEXT, "Requests of this member: its member id or its group.instance.id.", _text),
    "client_id": Field(_TEXT, "Requests with this client.id.", _text),
    "api": Field(_names(NAMED_BY), "Requests of this API.", _one_of(NAMED_BY)),
    "topic": Field(_TEXT, "Requests that name this topic, by name or by its id.", _text),
    "partition": Field(
        _number(0),
        "With topic: requests that name this partition of it. Else: requests about a group whose partition of "
        "__consumer_offsets this is.",
        _whole(0),
    ),
    "gateway": Field(_number(1), "Requests that this gateway serves, by its number.", _gateway),
    "when": Field(
        _WHEN_SCHEMA,
        "Which of the matching requests: all, the first, the n-th, or each with a probability that the seed and the "
        "number of the match decide. Counted over the whole cluster.",
        _when,
    ),
    "phase": Field(
        {**_names(PHASES), "default": "before"},
        "before: the request is not served (of delay: not yet). after: it is, and its answer is meant.",
        _one_of(PHASES),
    ),
    "error": Field(
        {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        "Of error: Kafka's name of the error, or its number.",
        _error,
    ),
    "delay_ms": Field(_number(1), "Of delay: how long, in ms.", _whole(1)),
    "speed": Field(
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "Of slow: the fraction of the time in which the process runs.",
        _fraction,
    ),
    "expires_ms": Field(_number(1), "When the fault ends by itself, in ms from its injection.", _whole(1)),
}
SCOPES = ("group", "member", "client_id", "api", "topic", "partition", "gateway")
"""Fields that say which requests are meant; all that are given have to match."""
_DEFAULTS = {"when": ALWAYS, "phase": "before"}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault as a user asks for it; fields and their meaning are in :data:`FIELDS`. InvalidFault if it cannot be."""

    action: str
    _: dataclasses.KW_ONLY
    actor: str | None = None
    group: str | None = None
    member: str | None = None
    client_id: str | None = None
    api: str | None = None
    topic: str | None = None
    partition: int | None = None
    gateway: int | None = None
    when: When = dataclasses.field(default=ALWAYS, hash=False)
    phase: str = "before"
    error: str | int | None = None
    delay_ms: int | None = None
    speed: float | None = None
    expires_ms: int | None = None

    def __post_init__(self) -> None:
        problems: list[str] = []
        for name, field in FIELDS.items():
            value = getattr(self, name)
            if value is None and name not in ("action", *_DEFAULTS):
                continue
            try:
                object.__setattr__(self, name, field.check(value))
            except ValueError as error:
                problems.append(f"{name} {error}" if str(error).startswith("has") else f"{name}: {error}")
        problems = problems or [*_contradictions(self)]
        if problems:
            raise InvalidFault(problems)

    @property
    def is_of_actor(self) -> bool:
        """Whether it is done to an actor's process; else to requests."""
        return self.action in ACTOR_ACTIONS

    @classmethod
    def from_json(cls, value: Any) -> Fault:
        """The fault that a JSON object says. InvalidFault."""
        if not isinstance(value, Mapping):
            raise InvalidFault(["a fault is an object with an action"])
        if unknown := [str(name) for name in value if name not in FIELDS]:
            raise InvalidFault(
                f"{name} is no field of a fault{near_miss(name, FIELDS)}; there are {', '.join(FIELDS)}"
                for name in unknown
            )
        if "action" not in value:
            raise InvalidFault([f"action is missing; there are {', '.join(ACTIONS)}"])
        given = {name: content for name, content in value.items() if content is not None}
        return cls(given.pop("action", None), **given)

    def to_json(self) -> dict[str, Any]:
        """Only what differs from the default; :meth:`from_json` reads it back."""
        every = {name: getattr(self, name) for name in FIELDS}
        return {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in every.items()
            if value is not None and value != _DEFAULTS.get(name)
        }


def _contradictions(fault: Fault) -> Iterator[str]:
    """Fields that make no sense together, and why."""
    yield from _of_actor(fault) if fault.is_of_actor else _of_requests(fault)
    for name, action in (("error", ERROR), ("delay_ms", DELAY), ("speed", SLOW)):
        given = getattr(fault, name) is not None
        if given and fault.action != action:
            yield f"{name} is for {action}, not for {fault.action}"
        if not given and fault.action == action:
            yield f"{action} needs {name}"


def _of_actor(fault: Fault) -> Iterator[str]:
    given = [name for name in SCOPES if name != "group" and getattr(fault, name) is not None]
    if given:
        yield f"{fault.action} is done to an actor, not to requests: {', '.join(given)} cannot be said"
    if (fault.actor is None) == (fault.group is None):
        yield f"{fault.action} needs either actor, or group for the offsets actor that owns it"
    if fault.when != ALWAYS:
        yield f"{fault.action} is done at once: when cannot be said; a plan says at which time"
    if fault.phase != "before":
        yield f"{fault.action} is done to an actor: there is no request for it to be after"
    if fault.expires_ms is not None and fault.action not in LASTING:
        yield f"{fault.action} is done at once and does not last: expires_ms cannot be said"


def _of_requests(fault: Fault) -> Iterator[str]:
    if fault.actor is not None:
        yield f"{fault.action} is done to requests: actor is for {', '.join(sorted(ACTOR_ACTIONS))}"
    if fault.api is None:
        return
    named = NAMED_BY[fault.api]
    for scope in ("group", "member", "topic"):
        if getattr(fault, scope) is not None and scope not in named:
            yield f"a request of {fault.api} names no {scope}"
    needed = "partition" if fault.topic is not None else "group"
    if fault.partition is not None and needed not in named and (fault.topic is None or "topic" in named):
        what = "no partition of a topic" if fault.topic is not None else "no group: say the topic with the partition"
        yield f"a request of {fault.api} names {what}"


def error_code(name: str | int) -> ErrorCode:
    """The code of an error as a checked fault has it."""
    return _ERRORS[str(name)]
