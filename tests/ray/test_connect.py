"""A Muster that runs is found, or it is said why not; those on a Ray are in test_start.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

import muster
from muster.gateway.client.run_state import read_state, write_state


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("MUSTER_BOOTSTRAP", "MUSTER_HTTP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def test_by_address(kafka: muster.Cluster) -> None:
    found = muster.connect(f"PLAINTEXT://127.0.0.1:1, {kafka.bootstrap}")
    assert found.bootstrap == f"PLAINTEXT://127.0.0.1:1, {kafka.bootstrap}"
    assert found.http == ()
    with pytest.raises(muster.NotRunning, match="was not started from here"):
        found.stop()


@pytest.mark.parametrize("as_text", [True, False])
def test_by_storage(kafka: muster.Cluster, storage: Path, as_text: bool) -> None:
    found = muster.connect(str(storage) if as_text else storage)
    assert found == kafka
    with found:
        pass
    assert found.topic("still-served") == "still-served"


def test_by_the_default_storage(kafka: muster.Cluster, storage: Path, tmp_path: Path) -> None:
    (tmp_path / "muster-data").symlink_to(storage)
    assert muster.connect() == kafka


def test_by_the_environment(kafka: muster.Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_BOOTSTRAP", kafka.bootstrap)
    assert muster.connect() == dataclasses.replace(kafka, http=())
    monkeypatch.setenv("MUSTER_HTTP", f"{kafka.http[0]}/metrics,")
    assert muster.connect() == kafka


@pytest.fixture
def moved(storage: Path) -> Iterator[None]:
    """Let the run state name gateways of the start that are gone."""
    state = read_state(storage)
    assert state is not None
    gone = dataclasses.replace(
        state, bootstrap=("127.0.0.1:1",), metrics=("http://127.0.0.1:1/metrics", *state.metrics)
    )
    write_state(storage, gone)
    yield
    write_state(storage, state)


def test_gateways_are_those_of_now(kafka: muster.Cluster, moved: None, storage: Path) -> None:
    assert muster.connect(storage) == kafka


@pytest.mark.parametrize("target", ["127.0.0.1:1", "127.0.0.1:1,127.0.0.1:2"])
def test_an_address_that_does_not_respond(target: str) -> None:
    with pytest.raises(muster.NoResponse, match=r"does not respond .*must be reachable from here.*give security="):
        muster.connect(target)


def test_a_storage_without_a_muster(tmp_path: Path) -> None:
    for target in ("no-such-directory", tmp_path):
        with pytest.raises(muster.NotRunning, match=f"no Muster runs on storage .*{Path(target).name}; start one"):
            muster.connect(target)


def test_nothing_anywhere() -> None:
    with pytest.raises(
        muster.NotRunning, match=r"no Muster was found: .*connected to none.*MUSTER_BOOTSTRAP.*muster-data"
    ):
        muster.connect()


def test_a_muster_that_was_killed_or_does_not_serve_yet(storage: Path, kafka: muster.Cluster, tmp_path: Path) -> None:
    state = read_state(storage)
    assert state is not None
    (tmp_path / "run").mkdir()
    write_state(tmp_path, state)
    with pytest.raises(muster.NotRunning, match="no Muster runs on storage"):
        muster.connect(tmp_path)
    write_state(tmp_path, dataclasses.replace(state, ray_temp_dir=None, bootstrap=(), metrics=()))
    with pytest.raises(muster.NotRunning, match="does not serve yet; try again"):
        muster.connect(tmp_path)


def test_a_damaged_run_state(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/cluster.json").write_text("{")
    with pytest.raises(muster.InvalidRunState, match=r"cluster\.json is damaged"):
        muster.connect(tmp_path)


def test_a_login_that_is_not_wanted(kafka: muster.Cluster, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    with pytest.raises(muster.InvalidClientConfig, match="not a readable property file"):
        muster.connect(kafka.bootstrap, security=file)
    file.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=p\n")
    with pytest.raises(muster.MusterError):
        muster.connect(kafka.bootstrap, security=file)
    file.write_text("security.protocol=PLAINTEXT\n")
    assert muster.connect(kafka.bootstrap, security=file).client()["security.protocol"] == "PLAINTEXT"
