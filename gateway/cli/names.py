"""Names of groups, members and topics on the command line."""

from __future__ import annotations

import os
from typing import Any

import click


class _Name(click.ParamType[str]):
    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        try:
            text.encode()
        except UnicodeEncodeError:  # bytes that the locale cannot read: in an ASCII one, any other letter
            try:
                return os.fsencode(text).decode()
            except UnicodeError:  # librdkafka crashes on what stands for them
                self.fail(
                    f"{text.encode(errors='surrogateescape')!r} is not UTF-8, as all names in Kafka are", param, ctx
                )
        return text


NAME = _Name()
"""A click type: any text that Kafka's protocol can carry, whatever the locale, else wrong usage."""
