"""Ray's key-value store, where commands find what saves them a connection to Ray.

It is private to Ray, and free to change: without it, commands connect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from typing import Any

from muster.actors.runtime.ray.public_api import public_api_only

log = logging.getLogger(__name__)

_READ_S = 5


def put(key: str, value: str, namespace: str) -> None:
    """Store a value, if that is possible. This process is connected to Ray."""
    _change(key, lambda store: store._internal_kv_put(key, value, namespace=namespace))


def delete(key: str, namespace: str) -> None:
    """Delete a value, if that is possible. This process is connected to Ray."""
    _change(key, lambda store: store._internal_kv_del(key, namespace=namespace))


def get(key: str, namespace: str) -> str | None:
    """Return a value; None if there is none, or no way to read it. This process is connected to Ray."""
    if public_api_only():
        return None
    try:
        value: bytes | None = import_module("ray.experimental.internal_kv")._internal_kv_get(key, namespace=namespace)
    except Exception as error:
        log.debug("%s cannot be read: %s", key, error)
        return None
    return None if value is None else value.decode()


def read(address: str, key: str, namespace: str) -> bytes | None:
    """Return a value of the Ray whose GCS is at ``address``, to which this process need not be connected.

    None if there is none, or no way to read it.
    """
    if public_api_only():
        return None
    try:
        raylet: Any = import_module("ray._raylet")
        client = raylet.GcsClient(address=address)
        value: bytes | None = client.internal_kv_get(key.encode(), namespace.encode(), timeout=_READ_S)
        return value
    except Exception as error:  # whoever connects next says what is wrong
        log.debug("%s cannot be read: %s", key, error)
        return None


def _change(key: str, change: Callable[[Any], object]) -> None:
    if public_api_only():
        return
    try:
        change(import_module("ray.experimental.internal_kv"))
    except Exception as error:
        log.debug("%s cannot be changed: %s", key, error)
