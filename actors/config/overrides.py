"""Properties of one listener (KIP-103), or of one SASL mechanism of one listener.

``listener.name.NAME.KEY`` and ``listener.name.NAME.MECHANISM.KEY``, both names in lower case. A value for the mechanism
takes precedence over one for the listener, and that over the property without a prefix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from muster.actors.config.refused import property_without_effect
from muster.actors.config.tls.properties import RELOADED, SSL_KEYS
from muster.actors.config.types import SASL_MECHANISMS

PREFIX = "listener.name."
METRICS = "METRICS"
"""The name of the HTTP port: it has properties like a listener if it uses TLS."""

OF_A_LISTENER = SSL_KEYS | {
    "connections.max.reauth.ms",
    "max.connection.creation.rate",
    "max.connections",
    "proxy.protocol.enable",
    "proxy.protocol.trusted.hosts",
    "sasl.enabled.mechanisms",
}
"""Properties that may be set for one listener. A further one needs a line here, and a field of MusterConfig."""
OF_A_MECHANISM = frozenset({"connections.max.reauth.ms"})
"""Properties that may be set for one SASL mechanism of a listener."""
DYNAMIC_OF_A_LISTENER = RELOADED
"""Properties that can be altered while the cluster runs, for one listener only."""

_MECHANISM = "|".join(re.escape(name.lower()) for name in SASL_MECHANISMS)
_NAME = re.compile(rf"listener\.name\.([^.]+)\.(?:({_MECHANISM})\.)?(.+)")


class Override(NamedTuple):
    """The name of a property of one listener, in its parts."""

    listener: str
    """Name in lower case, like in the property."""
    mechanism: str | None
    key: str

    @classmethod
    def parse(cls, name: str) -> Override | None:
        """None if the name does not begin like one."""
        found = _NAME.fullmatch(name)
        return cls(found[1], found[2], found[3]) if found else None

    @property
    def is_known(self) -> bool:
        return self.key in (OF_A_LISTENER if self.mechanism is None else OF_A_MECHANISM)


def key_of(key: str, mechanism: str | None = None) -> str:
    """Where :func:`read_overrides` has the value."""
    return key if mechanism is None else f"{mechanism.lower()}.{key}"


def is_dynamic(name: str) -> bool:
    """Whether it is a property of one listener that can be altered while the cluster runs."""
    override = Override.parse(name)
    return override is not None and override.mechanism is None and override.key in DYNAMIC_OF_A_LISTENER


def read_overrides(
    texts: Mapping[str, Any], names: Sequence[str], typed: Callable[[str, Any], Any]
) -> dict[str, dict[str, Any]]:
    """Return the typed values by listener, then by :func:`key_of`. Raises ValueError, which names the property.

    ``names``: of the listeners; ``typed`` makes a value of a key and a text, or raises ValueError with both.
    """
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    for name, text in texts.items():
        override = Override.parse(name)
        if override is None or not override.is_known:
            raise ValueError(
                property_without_effect(name)
                or f"{name} cannot be set for one listener; ssl...., {', '.join(sorted(OF_A_LISTENER - SSL_KEYS))} can"
            )
        of = override.listener.upper()
        if of not in found or override.listener != override.listener.lower():
            known = ", ".join(each.lower() for each in names)
            raise ValueError(f"{name} is for none of the listeners; their names in it are {known}")
        try:
            found[of][key_of(override.key, override.mechanism)] = typed(override.key, text)
        except ValueError as error:
            raise ValueError(f"{name.removesuffix(override.key)}{error}") from None
    return found
