"""Responses that carry an error of Kafka's."""

from __future__ import annotations

from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.client.errors import MusterError


class Refused(MusterError):
    """A request was carried out with an error of Kafka's."""

    def __init__(self, what: str, error: ErrorCode, message: str | None) -> None:
        super().__init__(f"{what}: {text_of(error, message)}" if what else text_of(error, message))
        self.error = error


def text_of(error: ErrorCode, message: str | None) -> str:
    """Return Kafka's name of the error, and the message of the response if there is one."""
    return f"{error.name.upper()} {message}" if message else error.name.upper()


def check(result: Any, what: str) -> None:
    """Raise Refused, beginning with ``what``, if the result in a response has an error code."""
    if result.error_code is not ErrorCode.none:
        raise Refused(what, result.error_code, getattr(result, "error_message", None))
