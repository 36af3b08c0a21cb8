"""Refuses a request as a whole, or some of its elements: topics, groups, resources.

What is allowed is served by the API's handler, from a request that has nothing else; what is refused gets an error
from the API's own error body; the response has both, in the order of the request where it has one result for each
element. So a handler never sees what its client may not use. Names are judged before anything is looked up: a
response does not say whether something that is refused exists.

Some APIs are judged by their handlers, since it depends on what they find: their guards say so in ``inside``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import Body, ErrorCode, field
from muster.actors.wire.kafka.steps import Steps, finish
from muster.gateway.apis.guards.rights import ERRORS, MESSAGES, Names, Right, any_allowed, topic_name
from muster.gateway.listener.api import Api, Call, ErrorBody, Reply, Rule


@dataclass(frozen=True, slots=True)
class Need:
    """One of the rights is needed for each of the names, or the request is refused."""

    rights: tuple[Right, ...]
    names: Names
    of: str = ""
    """Subject of the names, for the documentation; if it is not all requests."""

    @property
    def error(self) -> ErrorCode:
        return ERRORS[self.rights[-1].resource]

    def refusal(self, call: Call) -> ErrorCode | None:
        """Return the error of the request; None if it is allowed."""
        for name in self.names(call):
            if not any_allowed(call, self.rights, name):
                return self.error
        return None

    def rule(self) -> Rule:
        """For the documentation."""
        return Rule(self.rights, self.of, self.error, of_all=True)


@dataclass(frozen=True, slots=True)
class Each:
    """One of the rights is needed for each element of an array of the request, or that element is refused."""

    rights: tuple[Right, ...]
    elements: str
    """The array in the request; versions without it have no elements."""
    results: str
    """The array in the response."""
    name: Callable[[Call, Any], str | None] = topic_name
    """Name of an element; None if there is nothing to refuse."""
    names: Callable[[Call], Iterable[str] | None] | None = None
    """Names of all elements, if they can be had without decoding the request; or None."""
    exempt: Callable[[Sequence[Any]], Callable[[Any], bool]] | None = None
    """Elements that Kafka refuses for another reason first."""
    body: ErrorBody | None = None
    """The response with an error for every element, if it is not the API's error body."""
    of: str = ""
    """Kind of the elements, for the documentation."""

    def refused(self, call: Call) -> Steps[Mapping[int, ErrorCode]]:
        """Return the errors of elements that are refused, by index."""
        verdicts: dict[str, bool] = {}
        names = None if self.names is None else self.names(call)
        if names is not None and all(self._allowed(call, name, verdicts) for name in names):
            return {}
        elements = getattr(call.entity(), self.elements, None) or ()
        is_exempt = None if self.exempt is None else self.exempt(elements)
        errors: dict[int, ErrorCode] = {}
        for index, element in enumerate(elements):
            if is_exempt is not None and is_exempt(element):
                continue
            if (error := self.error_of(call, element, verdicts)) is not None:
                errors[index] = error
            yield
        return errors

    def error_of(self, call: Call, element: Any, verdicts: dict[str, bool]) -> ErrorCode | None:
        """Return the error of an element; None if it is allowed. ``verdicts``: those of this request, by name."""
        name = self.name(call, element)
        if name is None or self._allowed(call, name, verdicts):
            return None
        return ERRORS[self.rights[-1].resource]

    def _allowed(self, call: Call, name: str, verdicts: dict[str, bool]) -> bool:
        allowed = verdicts.get(name)
        if allowed is None:
            allowed = verdicts[name] = any_allowed(call, self.rights, name)
        return allowed

    async def serve(self, api: Api, call: Call, refused: Mapping[int, ErrorCode]) -> Reply | None:
        """Serve the others, and add these. Raises BadRequest if no response can carry their errors."""
        request = call.entity()
        elements = getattr(request, self.elements)
        allowed = tuple(element for index, element in enumerate(elements) if index not in refused)
        reply: Reply | None = None
        if allowed:  # an empty array may mean everything
            part = call.narrowed(replace(request, **{self.elements: allowed}))
            reply = await api.handler(part)
            reply = reply if reply is None else await call.written(reply)
        results: dict[int, Any] = {}
        others: list[Any] = []
        response: Body = {}
        for error in dict.fromkeys(refused.values()):
            indexes = [index for index, each in refused.items() if each is error]
            response = self._failed(api, call, [elements[index] for index in indexes], error)
            found = [*_get(response, self.results)]
            if len(found) == len(indexes):
                results.update(zip(indexes, found, strict=True))
            else:  # an element that occurs twice has one result
                others.extend(found)
        served: Sequence[Any] = ()
        if reply is not None:
            response = entity_of(call, reply)
            if field(response, "error_code", ErrorCode.none) is not ErrorCode.none:
                return reply
            served = _get(response, self.results)
        merged = _merged(len(elements), served, results) if not others else [*served, *results.values(), *others]
        return call.reply(_with(response, self.results, merged))

    def _failed(self, api: Api, call: Call, elements: Sequence[Any], error: ErrorCode) -> Body:
        """Return the response to these elements alone, which are refused."""
        part = call.part(replace(call.entity(), **{self.elements: tuple(elements)}))
        part.reason = MESSAGES[error]
        return failed(part, self.body or api.error_body, error)

    def rules(self) -> Sequence[Rule]:
        """For the documentation."""
        return (Rule(self.rights, self.of, ERRORS[self.rights[-1].resource]),)


_Judgement = tuple[ErrorCode | None, Mapping[int, ErrorCode]]
"""The error of the whole request, or those of elements, by index."""


class Guard:
    """The guard of one API; see :class:`muster.gateway.listener.api.Guard`."""

    def __init__(
        self,
        *needs: Need,
        each: Each | None = None,
        inside: Sequence[Rule] = (),
        body: ErrorBody | None = None,
        amend: Callable[[Call, Reply], Reply] | None = None,
    ) -> None:
        """``inside``: what the handler judges. ``body``: of a request that is refused, if it is not the API's error
        body. ``amend``: leaves out of the response what the client may not see."""
        self._needs = needs
        self._each = each
        self._body = body
        self._amend = amend
        self.rules = (*(each.rule() for each in needs), *(each.rules() if each else ()), *inside)

    def passes(self, call: Call) -> bool:
        """See :meth:`muster.gateway.listener.api.Guard.passes`."""
        if self._amend is not None:
            return False
        error, refused = finish(self._judge(call))
        return error is None and not refused

    async def serve(self, api: Api, call: Call) -> Reply | None:
        """See :meth:`muster.gateway.listener.api.Guard.serve`."""
        error, refused = await call.gateway.turns.run(self._judge(call)) if call.is_large else finish(self._judge(call))
        if error is not None:
            call.reason = MESSAGES[error]
            return call.reply(failed(call, self._body or api.error_body, error))
        if self._each is not None and refused:
            reply = await self._each.serve(api, call, refused)
        else:
            reply = await api.handler(call)
        return reply if reply is None or self._amend is None else self._amend(call, await call.written(reply))

    def _judge(self, call: Call) -> Steps[_Judgement]:
        for rule in self._needs:
            if (error := rule.refusal(call)) is not None:
                return error, {}
        return None, {} if self._each is None else (yield from self._each.refused(call))


def failed(call: Call, body: ErrorBody, error: ErrorCode) -> Body:
    """Return the response to a request all of which has that error."""
    response = body(call, error)
    return {"throttle_time": 0, **response} if isinstance(response, dict) else response


def _get(response: Body, name: str) -> Any:
    return response[name] if isinstance(response, dict) else getattr(response, name)


def _with(response: Body, name: str, value: Any) -> Body:
    if isinstance(response, dict):
        return {**response, name: value}
    if isinstance(response, tuple):
        return response._replace(**{name: value})
    return replace(response, **{name: value})


def entity_of(call: Call, reply: Reply) -> Any:
    """Return a response, decoded."""
    header = call.header
    return codec.decode_response(header.api_key, header.api_version, b"".join(reply.in_memory))[1]


def _merged(count: int, served: Sequence[Any], refused: Mapping[int, Any]) -> Iterable[Any]:
    """Return the results in the order of the request's elements; served ones first, if their number is another."""
    if len(served) + len(refused) != count:
        return [*served, *refused.values()]
    others = iter(served)
    return [refused[index] if index in refused else next(others) for index in range(count)]


UNGUARDED = Guard()
"""For the APIs that Kafka lets every client use."""
