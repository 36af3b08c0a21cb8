"""Fixtures of the tests of Serve."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from tests.ray_fixtures import kit, muster, on_ray

__all__ = ["kit", "muster", "on_ray", "serve"]


@pytest.fixture(scope="package")
def serve(on_ray: None) -> Iterator[Any]:
    """Start Serve, without HTTP; the module ``ray.serve``. To import it takes seconds."""
    with warnings.catch_warnings(action="ignore"):  # it uses deprecated parts of pydantic
        from ray import serve
    serve.start(proxy_location="Disabled")
    yield serve
    serve.shutdown()
