"""SeaweedFS for the session, and a bucket in it for each test, directly or through a proxy with faults."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator

import pytest

from muster.actors.object_storage.bucket import Bucket
from muster.actors.object_storage.location import Location
from tests.object_storage.faulty import Proxy, faulty
from tests.object_storage.seaweedfs import SeaweedFS, seaweedfs

_BUCKET = "s3://muster-tests"
Connect = Callable[..., Bucket]
"""Connects to the test's place in the bucket; with ``through_proxy=True`` through the proxy."""


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFS]:
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as running:
        with pytest.MonkeyPatch.context() as environment:
            for name, value in running.environment().items():
                environment.setenv(name, value)
            asyncio.run(Bucket(Location.parse(_BUCKET)).create("made-by-this", b""))
        yield running


@pytest.fixture
def proxy(service: SeaweedFS) -> Iterator[Proxy]:
    with faulty(service.endpoint) as running:
        yield running


@pytest.fixture
def uri() -> str:
    return f"{_BUCKET}/{secrets.token_hex(8)}"


@pytest.fixture
def connect(service: SeaweedFS, uri: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Connect:
    def bucket(*, through_proxy: bool = False, request_timeout_s: float = 30.0) -> Bucket:
        endpoint = request.getfixturevalue("proxy").url if through_proxy else service.endpoint
        for name, value in service.environment(endpoint).items():
            monkeypatch.setenv(name, value)
        return Bucket(Location.parse(uri), request_timeout_s=request_timeout_s)

    return bucket
