"""Names of groups, members and topics on the command line, and of the storage directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.actors.object_storage.location import is_uri

if TYPE_CHECKING:
    _TextType = click.ParamType[str]
    _PathType = click.ParamType[Path]
else:  # generic since click 8.4 only
    _TextType = _PathType = click.ParamType


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


class _StorageDirectory(_PathType):
    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if is_uri(str(value)):
            self.fail(f"{value} is no directory; name storage.object.cache.path, the one of this node", param, ctx)
        return Path(value)


STORAGE_DIRECTORY = _StorageDirectory()
"""A click type: a directory, which on a bucket is that of this node; its URI is wrong usage."""
