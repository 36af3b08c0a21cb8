"""One fault: what is done, to whom, when, and for how long. Checked when it is made.

:data:`FAULT` is the union of all kinds, tagged by ``action``: checks, JSON, the command's options and the OpenAPI
description come from it. Pure: no clock, no randomness, no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar, cast, get_args

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass
from pydantic.fields import FieldInfo

from muster.actors.faults.apis import NAMED_BY
from muster.actors.faults.errors import InvalidFault
from muster.actors.faults.fields import (
    ALWAYS,
    WHEN,
    Actor,
    Api,
    Error,
    Fraction,
    FromOne,
    FromZero,
    Gateway,
    Phase,
    Text,
    When,
    near_miss,
    unknown,
)

F = TypeVar("F", bound="Fault")
_DEFAULTS = {"when": ALWAYS, "phase": "before"}
_Group = Annotated[
    Text | None,
    Field(description="Requests that name this group. Of an actor fault: the offsets actor that owns the group."),
]
_Expiry = Annotated[FromOne | None, Field(description="Time from the injection until the fault ends by itself, in ms.")]


class Fault:
    """Base of all kinds of faults. ``Fault(ACTION, **fields)`` makes one of its kind, or raises InvalidFault."""

    __slots__ = ()
    action: str
    group: str | None
    expires_ms: int | None = None
    """None as well where the fault is over at once."""

    def __new__(cls, action: Any = None, /, **fields: Any) -> Fault:
        return cls.from_json({"action": action, **fields}) if cls is Fault else super().__new__(cls)

    @classmethod
    def from_json(cls, value: Any) -> Fault:
        """Return the fault in a JSON object. Raises InvalidFault."""
        if not isinstance(value, Mapping):
            raise InvalidFault(["a fault is an object with an action"])
        if strange := [str(name) for name in value if name not in FIELDS]:
            raise InvalidFault(
                f"{name} is no field of a fault{near_miss(name, FIELDS)}; there are {', '.join(FIELDS)}"
                for name in strange
            )
        given = {name: said for name, said in value.items() if said is not None and said != _DEFAULTS.get(name)}
        try:
            return FAULT.validate_python(given)
        except ValidationError as error:
            raise InvalidFault(_problems(given.get("action"), error)) from None

    def to_json(self) -> dict[str, Any]:
        """Only what differs from the default; :meth:`from_json` reads it back."""
        fields: dict[str, Any] = FAULT.dump_python(self, exclude_defaults=True)  # type: ignore[arg-type]
        return fields


def _kind(cls: type[F]) -> type[F]:
    """Make the class a kind of fault, without ``__init__``: :data:`FAULT` checks the values and fills the slots."""
    made = dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))(cls)
    del made.__init__
    return cast(type[F], made)


@_kind
class ActorFault(Fault):
    """Fault of an actor's process."""

    action: str
    actor: Annotated[
        Actor | None, Field(description="Actor faults: its name in muster status, such as offsets-9 or controller.")
    ] = None
    group: _Group = None

    @model_validator(mode="after")
    def _one_actor(self) -> ActorFault:
        if (self.actor is None) == (self.group is None):
            raise ValueError(f"{self.action} needs either actor, or group for the offsets actor that owns it")
        return self


@_kind
class HeldFault(ActorFault):
    """Fault that holds the process until it is cleared or expires."""

    expires_ms: _Expiry = None


@_kind
class RequestFault(Fault):
    """Fault of requests that match all given scopes, from ``group`` to ``gateway``."""

    action: str
    group: _Group = None
    member: Annotated[
        Text | None, Field(description="Requests of this member: its member id or its group.instance.id.")
    ] = None
    client_id: Annotated[Text | None, Field(description="Requests with this client.id.")] = None
    api: Annotated[Api | None, Field(description="Requests of this API.")] = None
    topic: Annotated[Text | None, Field(description="Requests that name this topic, by name or by its id.")] = None
    partition: Annotated[
        FromZero | None,
        Field(
            description="With topic: requests that name this partition of it. Else: requests about a group whose "
            "partition of __consumer_offsets this is."
        ),
    ] = None
    gateway: Annotated[Gateway | None, Field(description="Requests that this gateway serves, by its number.")] = None
    when: Annotated[
        When,
        Field(
            description="Which of the matching requests: all, the first, the n-th, or each with a probability that the "
            "seed and the number of the match decide. Counted over the whole cluster."
        ),
    ] = "always"
    phase: Annotated[
        Phase,
        Field(
            description="before: the request is not served (of delay: not yet). after: the request is served, and the "
            "fault affects its response."
        ),
    ] = "before"
    expires_ms: _Expiry = None

    @model_validator(mode="after")
    def _the_api_names_it(self) -> RequestFault:
        if self.api is not None and (problems := [*_not_named(self, self.api)]):
            raise ValueError(*problems)
        return self


@_kind
class KillFault(ActorFault):
    """SIGKILL to the actor's process."""

    action: Literal["kill"]


@_kind
class PauseFault(HeldFault):
    """SIGSTOP to the actor's process, until the fault is cleared or expires."""

    action: Literal["pause"]


@_kind
class ContinueFault(ActorFault):
    """SIGCONT to the actor's process; ends its pause and slow faults."""

    action: Literal["continue"]


@_kind
class SlowFault(HeldFault):
    """The actor's process runs the fraction `speed` of the time, by SIGSTOP and SIGCONT."""

    action: Literal["slow"]
    speed: Annotated[Fraction, Field(description="Of slow: fraction of the time in which the process runs.")]


@_kind
class ErrorFault(RequestFault):
    """The request is answered with `error`, in every place where its response has one."""

    action: Literal["error"]
    error: Annotated[Error, Field(description="Of error: Kafka's name of the error, or its number.")]


@_kind
class NoResponseFault(RequestFault):
    """The request is never answered, nor is any later one of its connection, which stays open."""

    action: Literal["no-answer"]


@_kind
class DropFault(RequestFault):
    """The request or its answer is lost; the connection and its later requests continue."""

    action: Literal["drop"]


@_kind
class DelayFault(RequestFault):
    """The request is served, or answered, `delay_ms` later; later ones of its connection wait behind it."""

    action: Literal["delay"]
    delay_ms: Annotated[FromOne, Field(description="Of delay: its length, in ms.")]


@_kind
class CloseFault(RequestFault):
    """The connection is closed in place of an answer, after the answers before it."""

    action: Literal["close"]


_Every = (
    KillFault
    | PauseFault
    | ContinueFault
    | SlowFault
    | ErrorFault
    | NoResponseFault
    | DropFault
    | DelayFault
    | CloseFault
)
FAULT: TypeAdapter[_Every] = TypeAdapter(Annotated[_Every, Field(discriminator="action")])


def _fields_of(kind: type[Fault]) -> Mapping[str, FieldInfo]:
    fields: Mapping[str, FieldInfo] = kind.__pydantic_fields__  # type: ignore[attr-defined]
    return fields


_KINDS: Mapping[str, type[Fault]] = {
    get_args(_fields_of(kind)["action"].annotation)[0]: kind for kind in get_args(_Every)
}
ACTIONS: Mapping[str, str] = {action: kind.__doc__ or "" for action, kind in _KINDS.items()}
FIELDS: Mapping[str, str] = {
    name: field.description or "Kind of the fault."
    for kind in _KINDS.values()
    for name, field in _fields_of(kind).items()
}
"""Meaning of each field of any kind."""


def _problems(action: Any, error: ValidationError) -> Iterator[str]:
    """Yield the problems, field by field, in the words of a fault."""
    for problem in error.errors():
        kind, where = problem["type"], [str(part) for part in problem["loc"][1:]]
        if kind == "value_error":
            texts = problem["ctx"]["error"].args
            yield from texts if not where else [_of_field(where, texts[0])]
        elif not where:
            known = f"action is missing; there are {', '.join(ACTIONS)}"
            yield known if action is None else f"action: {unknown(action, ACTIONS)}"
        elif len(where) == 1 and kind == "missing":
            yield f"{action} needs {where[0]}"
        elif len(where) == 1 and kind == "unexpected_keyword_argument":
            yield _not_for(action, where[0])
        elif kind == "missing":
            yield f"{where[0]}: a probability needs a seed, so that it can be replayed"
        else:
            yield f"{where[0]} has to be {WHEN}"


def _of_field(where: list[str], text: str) -> str:
    name, *inside = where
    if inside:
        return f"{name}: {inside[-1]} {text}"
    return f"{name} {text}" if text.startswith("has") else f"{name}: {text}"


def _not_for(action: str, name: str) -> str:
    """Why faults of this action do not have the field, which others have."""
    if issubclass(_KINDS[action], RequestFault):
        if name == "actor":
            return f"{action} acts on requests: actor is for {', '.join(sorted(_having(name)))}"
    elif name == "when":
        return f"{action} acts at once and takes no when; a plan sets the time"
    elif name == "phase":
        return f"{action} acts on an actor and takes no phase, which is that of a request"
    elif name == "expires_ms":
        return f"{action} acts at once and takes no expires_ms: it does not last"
    elif name in _fields_of(RequestFault):
        return f"{action} acts on an actor, not on requests, and takes no {name}"
    return f"{name} is for {', '.join(sorted(_having(name)))}, not for {action}"


def _having(name: str) -> list[str]:
    return [action for action, kind in _KINDS.items() if name in _fields_of(kind)]


def _not_named(fault: RequestFault, api: str) -> Iterator[str]:
    """Scopes that no request of the API can match."""
    named = NAMED_BY[api]
    for scope in ("group", "member", "topic"):
        if getattr(fault, scope) is not None and scope not in named:
            yield f"a request of {api} names no {scope}"
    needed = "partition" if fault.topic is not None else "group"
    if fault.partition is not None and needed not in named and (fault.topic is None or "topic" in named):
        what = "no partition of a topic" if fault.topic is not None else "no group: give the topic of the partition"
        yield f"a request of {api} names {what}"
