"""Fixtures of the tests of pools."""

from __future__ import annotations

from tests.ray_fixtures import kit, muster, on_ray

__all__ = ["kit", "muster", "on_ray"]
