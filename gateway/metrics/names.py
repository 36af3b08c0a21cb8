"""Names in a scrape that the caller may not see: summed up under one name, or each replaced by its hash.

Sums over all series of a family are what they would be without. With sums, a counter can decrease when what may be
seen changes, which Prometheus takes for a restart.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from muster.actors.object_storage.location import Location
from muster.actors.runtime.storage.shared_files import share
from muster.gateway.attribution.series import MAX_GROUP_CHARS
from muster.gateway.metrics.exposition import labels

OTHER = "~other"
"""In place of what is summed up. No topic can be called so."""
_OF_GROUPS, _OF_TOPICS = "group", "topic"
_OF_CLIENTS = ("client_id", "client_instance_id", "attributes", "principal", "user", "ip")
_LABEL = re.compile(
    r',(group|topic|partition|client_id|client_instance_id|attributes|principal|user|ip)="((?:[^"\\]|\\.)*)"'
)
_ESCAPE = re.compile(r"\\(.)")
_HASH_CHARS = 16
_KEY_BYTES = 32
_KEY = "run/metrics-key"

Sees = Callable[[str], bool]


class HiddenNames:
    """The names of one scrape. Callable on the labels of a series, as text."""

    def __init__(self, sees_group: Sees, sees_topic: Sees, *, sees_clients: bool, key: bytes | None) -> None:
        """``key``: of the hashes; None: what is hidden is summed up."""
        self._sees: Mapping[str, Sees] = {
            _OF_GROUPS: lambda name: len(name) <= MAX_GROUP_CHARS and sees_group(name),
            _OF_TOPICS: sees_topic,
            **dict.fromkeys(_OF_CLIENTS, lambda _: sees_clients),
        }
        self._key = key
        self._known: dict[tuple[str, str], str] = {}

    def __call__(self, text: str) -> str:
        if "topic=" not in text and "group=" not in text and not any(f",{name}=" in text for name in _OF_CLIENTS):
            return text
        found = dict(_LABEL.findall(text))
        shown = {name: self._shown(name, value) for name, value in found.items() if name != "partition"}
        if "partition" in found and shown.get(_OF_TOPICS) == OTHER:
            shown["partition"] = ""
        return _LABEL.sub(lambda match: labels(**{match[1]: shown[match[1]]}) if match[1] in shown else match[0], text)

    def _shown(self, label: str, escaped: str) -> str:
        """Return the value to show; ``escaped`` as it is in the text."""
        known = self._known.get((label, escaped))
        if known is None:
            name = _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], escaped)
            known = name if not name or self._sees[label](name) else self._hidden(label, name)
            self._known[label, escaped] = known
        return known

    def _hidden(self, label: str, name: str) -> str:
        if self._key is None:
            return OTHER
        return f"~{hmac.digest(self._key, f'{label}:{name}'.encode(), 'sha256').hex()[:_HASH_CHARS]}"


def share_key(bucket: Location, storage: Path) -> None:
    """Have ``key_of`` return the key of the cluster on that bucket. Raises OSError if that is not known. Blocks."""
    share(bucket, storage, _KEY, lambda: secrets.token_bytes(_KEY_BYTES))


def key_of(storage: Path) -> bytes:
    """Return the key of the cluster's hashes, which is made once and kept with its data. Raises OSError."""
    path = storage / _KEY
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        with suppress(FileExistsError):  # another gateway was first
            os.link(made, path)
        made.unlink()
    return path.read_bytes()
