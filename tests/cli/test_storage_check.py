"""``muster storage check`` of a bucket."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from muster.gateway.cli import main
from tests.object_storage.conftest import service
from tests.object_storage.seaweedfs import SeaweedFS

__all__ = ["service"]


Command = Callable[..., "Done"]


class Done(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture
def muster(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: str) -> Done:
        return Done(main._run([*arguments]), *capsys.readouterr())

    return run


@pytest.mark.ring(name="object-storage")
@pytest.mark.timeout(300)
def test_a_bucket_that_is_fit(muster: Command, service: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in service.environment().items():
        monkeypatch.setenv(name, value)
    done = muster("storage", "check", "s3://muster-tests/checked", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["location"] == "s3://muster-tests/checked"
    assert [row["promise"] for row in found["findings"]] == ["create", "replace", "read", "list", "delete"]
    assert "a PUT of 4 KiB" in found["findings"][0]["result"]
    assert service.secret not in done.stdout + done.stderr


@pytest.mark.ring(name="object-storage")
@pytest.mark.timeout(300)
def test_the_doctor_tries_a_bucket(
    muster: Command, service: SeaweedFS, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in service.environment().items():
        monkeypatch.setenv(name, value)
    uri = "s3://muster-tests/doctor"
    done = muster("doctor", "--storage", uri, "--set", f"storage.object.cache.path={tmp_path}", "--json")
    (found,) = (row for row in json.loads(done.stdout) if row["check"] == "bucket")
    assert found["level"] == "ok"
    assert found["found"].startswith(f"{uri} keeps create, replace, read, list, delete")


@pytest.mark.ring(name="object-storage")
@pytest.mark.timeout(300)
def test_a_bucket_that_does_not_let_anyone_in(
    muster: Command, service: SeaweedFS, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**service.environment(), "AWS_SECRET_ACCESS_KEY": "no-such-key"}.items():
        monkeypatch.setenv(name, value)
    done = muster("storage", "check", "s3://muster-tests/checked")
    assert done.exit_code == 1
    assert "s3://muster-tests/checked cannot be used: " in done.stderr
    assert "SignatureDoesNotMatch" in done.stderr
    assert "no-such-key" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["s3://key:secret@bucket"], "credentials do not belong into the URI; put them into the environment"),
        (["ftp://host/folder"], "the scheme is none of s3://, gs://, az://"),
        (["s3://bucket/prefix", "--address", "auto"], "every node reaches the same bucket"),
    ],
)
def test_refusals(muster: Command, arguments: list[str], problem: str) -> None:
    done = muster("storage", "check", *arguments)
    assert done.exit_code == 1
    assert problem in done.stderr


@pytest.mark.parametrize("command", [["up"], ["doctor"]])
@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("ftp://host/folder", "the scheme is none of s3://, gs://, az://"),
        ("s3://key:secret@bucket", "credentials do not belong into the URI"),
        ("file://host/folder", "the scheme is none of s3://, gs://, az://"),
    ],
)
def test_no_cluster_lives_anywhere_else(
    muster: Command, command: list[str], uri: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = muster(*command, "--storage", uri)
    assert done.exit_code != 0
    assert problem in done.stdout + done.stderr
    assert "unexpected" not in done.stderr
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("command", [["status"], ["down"], ["log", "verify"]])
def test_a_directory_is_no_bucket(muster: Command, command: list[str]) -> None:
    done = muster(*command, "--storage", "s3://bucket/prefix")
    assert done.exit_code == 2
    assert "s3://bucket/prefix is no directory; name storage.object.cache.path, the one of this node" in done.stderr
