"""Names of groups, members and topics on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:  # generic since click 8.4 only
    _TextType = click.ParamType


class _Name(_TextType):
    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail(f"{text.encode(errors='surrogateescape')!r} is not UTF-8, as all names in Kafka are", param, ctx)
        return text


NAME = _Name()
"""A click type: any text that Kafka's protocol can carry; otherwise wrong usage."""
