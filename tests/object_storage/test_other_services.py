"""The requests that Google Cloud Storage and Azure get, whose conditions and errors are others.

Neither runs on this machine: what stands here for them responds as their documentation says.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from muster.actors.object_storage.bucket import Bucket
from muster.actors.object_storage.location import Location
from muster.actors.object_storage.store import (
    NoSuchObject,
    ObjectStorageError,
    ObjectStore,
    Refused,
    Taken,
    Unavailable,
)

_OK = (200, "", {"ETag": '"e"', "x-goog-generation": "7", "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"})
Response = tuple[int, str, dict[str, str]]


@dataclass
class Service:
    url: str = ""
    respond: Callable[[str, str], Response] = lambda method, path: _OK
    conditions: list[dict[str, str]] = field(default_factory=list)
    """Headers of each PUT that are a condition."""
    deleted: list[str] = field(default_factory=list)


@contextmanager
def serving() -> Iterator[Service]:
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *arguments: object) -> None:
            pass

        def _any(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            names = ("if-match", "if-none-match", "x-goog-if-generation-match")
            if self.command == "PUT":
                service.conditions.append({name: self.headers[name] for name in names if name in self.headers})
            if self.command == "DELETE":
                service.deleted.append(self.path)
            status, body, headers = service.respond(self.command, self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body.encode())

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _any

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as running:
        yield running


@pytest.fixture
def google(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    account = {"gcs_base_url": service.url, "disable_oauth": True}
    account |= {"client_email": "", "private_key": "", "private_key_id": ""}
    (tmp_path / "account.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "account.json"))
    return Bucket(Location.parse("gs://bucket/prefix"))


@pytest.fixture
def azure(service: Service, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", service.url)
    return Bucket(Location.parse("az://container/prefix"))


def error(status: int, code: str) -> Response:
    return status, f"<Error><Code>{code}</Code><Message>why.\nRequestId:1\nTime:2</Message></Error>", {}


async def raised(bucket: Bucket, operation: str) -> tuple[type[ObjectStorageError], str]:
    arguments = {
        "create": ("name", b"content"),
        "replace": ("name", b"content", '"e" 7'),
        "read": ("name",),
        "delete": (["name"],),
    }
    with pytest.raises(ObjectStorageError) as caught:
        await getattr(ObjectStore(bucket), operation)(*arguments[operation])
    return type(caught.value), str(caught.value)


def test_google_compares_generations(google: Bucket, service: Service) -> None:
    async def run() -> None:
        etag = await google.create("name", b"one")
        await google.replace("name", b"two", etag)
        await google.replace("name", b"three", (await google.read("name")).etag)
        zero, seven = ({"x-goog-if-generation-match": value} for value in ("0", "7"))
        assert service.conditions == [zero, seven, seven]

    asyncio.run(run())


def test_azure_compares_etags(azure: Bucket, service: Service) -> None:
    async def run() -> None:
        etag = await azure.create("name", b"one")
        await azure.replace("name", b"two", etag)
        assert service.conditions == [{"if-none-match": "*"}, {"if-match": '"e"'}]

    asyncio.run(run())


@pytest.mark.parametrize("status", [409, 412])
def test_a_condition_that_does_not_hold(azure: Bucket, google: Bucket, service: Service, status: int) -> None:
    def respond(method: str, path: str) -> Response:
        return error(status, "ConditionNotMet") if method == "PUT" else (200, "other", {**_OK[2], "ETag": '"f"'})

    service.respond = respond
    for bucket in (azure, google):
        assert asyncio.run(raised(bucket, "create"))[0] is Taken
    assert asyncio.run(raised(azure, "replace"))[0] is Taken


@pytest.mark.parametrize(
    ("status", "code", "kinds"),
    [
        (404, "ContainerNotFound", [Refused, Refused, Refused]),
        (409, "ContainerBeingDeleted", [Unavailable, Unavailable, Unavailable]),
        (403, "AuthorizationFailure", [Refused, Refused, Refused]),
        (503, "ServerBusy", [Unavailable, Unavailable, Unavailable]),
        (404, "BlobNotFound", [Refused, Refused, NoSuchObject]),
    ],
)
def test_errors(azure: Bucket, service: Service, status: int, code: str, kinds: list[type]) -> None:
    """For create, replace and read. Each has the service's code, without what differs for each request."""
    service.respond = lambda method, path: error(status, code)
    found = [asyncio.run(raised(azure, operation)) for operation in ("create", "replace", "read")]
    assert [kind for kind, _ in found] == kinds
    assert all("RequestId" not in text for _, text in found)


def test_some_are_gone_already(google: Bucket, service: Service) -> None:
    def respond(method: str, path: str) -> Response:
        return error(404, "NoSuchKey") if path.endswith("n000") else (204, "", {})

    service.respond = respond
    names = [f"n{number:03}" for number in range(30)]
    asyncio.run(google.delete(names))
    assert {path.rpartition("n")[2] for path in service.deleted} == {name[1:] for name in names}
