"""Installation of hosts: the committed tree, and packages out of caches of their own, since they reach no registry."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import yaml

from tests.conformance.artifacts import in_stock

ROOT = Path(__file__).parents[2]
_CACHE = ROOT / ".cache" / "hosts-packages"
_LOCK = ROOT / "requirements-hosts.lock"
_FETCH_S = 900


def fetch() -> Path:
    """Return a folder with ``uv``, uv's cache after it installed requirements-hosts.lock, and ``wheels``: uv, for pip.

    Made once for each lock file.
    """
    commands = " ".join(yaml.safe_load((ROOT / "cluster.yaml").read_text())["setup_commands"])
    found = re.search(r"pip install '(uv[^']*)'", commands)
    assert found is not None, "cluster.yaml does not install uv"
    with in_stock(_CACHE, hashlib.sha256(_LOCK.read_bytes() + found[1].encode()).hexdigest()) as missing:
        if missing:
            print(f"== fetching what hosts install: {_LOCK.name}", flush=True)
            _fill(_CACHE, found[1])
    return _CACHE


def _fill(folder: Path, uv: str) -> None:
    python = folder / "venv" / "bin" / "python"
    venv.create(folder / "venv", with_pip=True)
    _run(python, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder / "wheels", uv)
    _run(python, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", folder / "wheels", "uv")
    cache = ("--cache-dir", folder / "uv")
    _run(
        folder / "venv/bin/uv", "pip", "install", "--quiet", "--python", python, *cache, "--require-hashes", "-r", _LOCK
    )
    shutil.rmtree(folder / "venv")


def environment(folder: Path) -> dict[str, str]:
    """Return settings of pip and uv for hosts with these packages: uv finds its cache in the home."""
    indexes = {name: value for name, value in os.environ.items() if name.startswith("UV_") and "INDEX" in name}
    return {
        "PATH": f"{python_folder()}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder / "wheels"),
        "UV_OFFLINE": "1",
        **indexes,
    }


def python_folder() -> Path:
    """Return the Python 3.11 of this checkout, which hosts have as well."""
    return Path(sys.base_prefix)


def give(folder: Path, home: Path) -> None:
    """uv's cache for a host, as hard links: on the same mount as its home, where uv links out of it."""
    (home / ".cache").mkdir(parents=True, exist_ok=True)
    _run("cp", "--archive", "--link", folder / "uv", home / ".cache" / "uv")


def build(folder: Path, version: str | None = None) -> None:
    """``make dist-hosts`` into ``folder/dist``, with another version if one is given."""
    _run("make", "--silent", "--directory", ROOT, "dist-hosts")
    shutil.rmtree(folder / "dist", ignore_errors=True)
    shutil.copytree(ROOT / "dist" / "muster", folder / "dist" / "muster", symlinks=True)
    if version is not None:
        project = folder / "dist" / "muster" / "pyproject.toml"
        text, count = re.subn(r'(?m)^version = ".*"$', f'version = "{version}"', project.read_text())
        assert count == 1
        project.write_text(text)


def _run(*words: str | Path) -> None:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=_FETCH_S)
    assert done.returncode == 0, f"{' '.join(map(str, words))}:\n{(done.stdout + done.stderr)[-3000:]}"
