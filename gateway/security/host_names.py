"""Refusal of requests to names that are not ours, since a browser may have been led there (DNS rebinding).

Another site can point a name of its own at the address of a server that its visitor reaches, and then read and change
what that server lets anyone. An address cannot be pointed anywhere.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection
from functools import cache
from urllib.parse import urlsplit


@cache
def own_names() -> frozenset[str]:
    """Return the names of this host that are known without DNS."""
    return frozenset({"localhost", socket.gethostname().lower()})


def listed(names: str) -> frozenset[str]:
    """Return the names of a list with commas."""
    return frozenset(name.strip().lower() for name in names.split(",") if name.strip())


def is_own(host: str, names: Collection[str]) -> bool:
    """Return whether a header Host has an address, or one of the names."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".") if host else ""
    except ValueError:
        return False
    if name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
