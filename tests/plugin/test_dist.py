"""Distributions of ``make dist``: they have all that is needed and nothing else, and run outside the checkout."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from pytest_muster import Muster
from tests.plugin.users_environment import files_of_checkout, make_environment_with_muster
from tests.restart.test_restart import nothing_is_left

pytestmark = pytest.mark.ring(name="plugin")

FOLDERS = ("actors", "gateway", "placement", "spark")
"""Folders of the checkout that are packages of ``muster`` when installed."""
_OF_PROJECT = {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}


def below(prefix: str, files: Iterable[str]) -> set[str]:
    return {file for file in files if file.startswith(f"{prefix}/")}


def package() -> set[str]:
    """Every file of ``muster``, whose folders are links in the checkout."""
    files = files_of_checkout()
    links = {f"muster/{folder}" for folder in FOLDERS}
    return {f"muster/{file}" for folder in FOLDERS for file in below(folder, files)} | below("muster", files) - links


def in_wheel(dist: Path, name: str) -> set[str]:
    """Without the metadata, whose folder is the only other one."""
    (wheel,) = dist.glob(f"{name}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        files = set(archive.namelist())
    metadata = below(f"{name}-0.1.0.dist-info", files)
    assert f"{name}-0.1.0.dist-info/licenses/LICENSE" in metadata
    return files - metadata


def in_sdist(dist: Path, name: str, folder: str = "") -> set[str]:
    """Without the metadata, which are in ``folder``."""
    (sdist,) = dist.glob(f"{name}-*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert all(member.isfile() or member.isdir() for member in archive), "a link leads nowhere elsewhere"
        files = {member.name.removeprefix(f"{name}-0.1.0/") for member in archive if member.isfile()}
    return files - below(f"{folder}{name}.egg-info", files)


def test_contents_of_muster_kafka(dist: Path) -> None:
    assert {Path(file).suffix for file in package()} == {
        ".py",
        ".typed",
        ".json",
        ".yaml",
        ".j2",
        ".properties",
        ".css",
        ".js",
    }
    assert in_wheel(dist, "muster_kafka") == package()
    assert in_sdist(dist, "muster_kafka") == package() | _OF_PROJECT


def test_contents_of_pytest_muster(dist: Path) -> None:
    source = "pytest-muster/src/"
    files = {file.removeprefix(source) for file in files_of_checkout() if file.startswith(source)}
    assert in_wheel(dist, "pytest_muster") == files
    sources = {f"src/{file}" for file in files}
    assert in_sdist(dist, "pytest_muster", "src/") == sources | _OF_PROJECT | {"MANIFEST.in"}


@pytest.mark.parametrize("kind", ["whl", "tar.gz"])
def test_it_runs_where_it_is_installed(dist: Path, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = make_environment_with_muster(tmp_path / "environment", *dist.glob(f"muster_kafka-*.{kind}"))
    command = str(python.with_name("muster"))
    monkeypatch.chdir(tmp_path)
    where = [str(python), "-c", "import muster; print(muster.__file__)"]
    assert Path(subprocess.check_output(where, text=True).strip()).is_relative_to(tmp_path / "environment")
    assert subprocess.check_output([command, "--version"], text=True) == "muster, version 0.1.0\n"
    assert "Commands:" in subprocess.check_output([command, "--help"], text=True)
    with Muster(tmp_path / "storage", command=command) as muster:
        topic = muster.topic()
        producer = Producer({"bootstrap.servers": muster.bootstrap})
        producer.produce(topic, b"hello")
        assert producer.flush(30) == 0
        settings = {"bootstrap.servers": muster.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        consumer.subscribe([topic])
        message = consumer.poll(30)
        consumer.close()
        assert message is not None
        assert message.value() == b"hello"
    nothing_is_left(tmp_path / "storage")
