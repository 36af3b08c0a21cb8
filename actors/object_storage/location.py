"""The URI of a place in object storage, as in Ray's ``storage_path``: ``s3://bucket/prefix``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

SCHEMES = ("s3", "gs", "az")
"""Amazon S3 and what speaks its protocol (R2, MinIO, SeaweedFS), Google Cloud Storage, Azure Blob Storage."""

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
_SEGMENT = re.compile(r"[A-Za-z0-9!_.*'()-]+")
"""Characters that need no quoting in any of these services."""


class NotALocation(ValueError):
    """The URI names no place in object storage. The text says why."""


@dataclass(frozen=True, slots=True)
class Location:
    scheme: str
    bucket: str
    """Azure: the container. Its account is in the environment."""
    prefix: str
    """Without slashes at its ends; empty: the whole bucket."""

    @classmethod
    def parse(cls, uri: str) -> Location:
        """Raise NotALocation if the URI is none, or has more than a bucket and a prefix."""
        parts = urlsplit(uri)
        if parts.scheme not in SCHEMES:
            raise NotALocation(f"{_shown(uri)}: the scheme is none of {', '.join(f'{name}://' for name in SCHEMES)}")
        if "@" in parts.netloc:
            raise NotALocation("credentials do not belong into the URI; put them into the environment")
        if parts.query or parts.fragment:
            raise NotALocation(f"{_shown(uri)}: only a bucket and a prefix can be given")
        if not _BUCKET.fullmatch(parts.netloc):
            raise NotALocation(f"{_shown(uri)}: {parts.netloc!r} is not the name of a bucket")
        prefix = parts.path.strip("/")
        for segment in prefix.split("/") if prefix else ():
            if not _SEGMENT.fullmatch(segment) or segment in (".", ".."):
                raise NotALocation(f"{_shown(uri)}: {segment!r} cannot be part of a prefix")
        return cls(parts.scheme, parts.netloc, prefix)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}{f'/{self.prefix}' if self.prefix else ''}"


def is_uri(path: str) -> bool:
    """Whether it is a URI, of any scheme, and not the path of a directory."""
    return _URI.match(path) is not None


def _shown(uri: str) -> str:
    """Return it without what may be a secret."""
    return uri.partition("?")[0]
