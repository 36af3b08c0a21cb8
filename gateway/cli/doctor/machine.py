"""Checks of this machine: Java, Ray, descriptors, memory, kernel."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import psutil
from packaging.requirements import Requirement

from muster.actors.config import MusterConfig
from muster.actors.runtime.java import SUPPORTED, JavaNotFound, find_java, major_version
from muster.actors.runtime.storage.mounts import concerns, mount_of
from muster.actors.runtime.words import counted
from muster.gateway.cli import distribution
from muster.gateway.cli.doctor.findings import Finding, failed, ok, warning
from muster.gateway.cli.ray.gcs import GcsUnknown, gcs_store

_MIN_FILES, _FILES, _ADVISED_FILES = 4_096, 16_384, 65_536
_FILES_OF_RAY = 1_024
_BASE_BYTES, _ACTOR_BYTES = 1_500 << 20, 70 << 20
"""Ray and ZooKeeper; an actor, idle."""
_SOMAXCONN = 1_024
_SOMAXCONN_FILE, _SWAPPINESS_FILE = Path("/proc/sys/net/core/somaxconn"), Path("/proc/sys/vm/swappiness")
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_SWAPPINESS = 10


def installation() -> Iterator[Finding]:
    """Check Muster's version, and whether another project's files are among Muster's."""
    other = distribution.version_of_other_project()
    if other is None:
        yield ok("installation", f"{distribution.NAME} {distribution.installed_version() or 'in a checkout'}")
    else:
        yield failed(
            "installation",
            f"muster {other} is another project on PyPI, and its files are in the folder of Muster's",
            f"pip uninstall muster {distribution.NAME}, then install {distribution.NAME} again",
        )


def java() -> Iterator[Finding]:
    """Check the Java for ZooKeeper and Spark."""
    wanted = f"Java {SUPPORTED.start} to {SUPPORTED.stop - 1}"
    try:
        found = find_java()
    except JavaNotFound as error:
        what, _, mend = str(error).rpartition(": ")
        yield failed("java", what, f"{mend}, or install {wanted} and set JAVA_HOME")
        return
    yield ok("java", f"{major_version(found)}, {found}")


def ray(address: str | None) -> Iterator[Finding]:
    """Check Ray's version, and whether it needs a token. ``address``: of a Ray that is not Muster's own."""
    found = metadata.version("ray")
    specifier = next(
        requirement.specifier
        for text in metadata.requires(distribution.NAME) or ()
        if (requirement := Requirement(text)).name == "ray"
    )
    if found in specifier:
        yield ok("ray", f"version {found}")
    else:
        yield failed("ray", f"version {found}, but Muster needs {specifier}", f"pip install 'ray{specifier}'")
    if address is None:
        yield ok("ray token", "muster up makes one for its own Ray")
    elif os.environ.get("RAY_AUTH_MODE") == "token":
        yield ok("ray token", "RAY_AUTH_MODE=token")
    else:
        yield warning(
            "ray token",
            f"who reaches Ray at {address} runs programs there without a token",
            "set RAY_AUTH_MODE=token for ray start and muster up, see docs/deploy.md",
        )


def gcs(address: str | None) -> Iterator[Finding]:
    """Check that the state of Ray's GCS outlives its process. ``address``: of a Ray that is not Muster's own."""
    if address is None:
        yield ok("gcs", "that of Muster's own Ray ends with muster up in any case")
        return
    try:
        store = gcs_store(address)
    except GcsUnknown as error:
        yield ok("gcs", f"unknown: {error}; try it on the head")
        return
    if store.redis is not None:
        yield ok("gcs", f"in the Redis at {store.redis}")
    elif store.folder is not None:
        yield from _embedded_store(store.folder)
    else:
        yield warning(
            "gcs",
            "in memory: every actor ends with the head's Ray, also on the other nodes",
            "RAY_gcs_storage=rocksdb RAY_gcs_storage_path=DIR for ray start --head, see docs/deploy.md",
        )


def _embedded_store(folder: Path) -> Iterator[Finding]:
    """Check that the folder is on a disk, and private: it has the arguments of all actors, and so Muster's secret."""
    mount = mount_of(folder)
    notes = concerns(mount, shared=False) if mount else []
    for note in notes:
        yield warning("gcs", f"in {folder}, {mount}: {note}", "move it to a disk that comes back with the head")
    if not notes:
        yield ok("gcs", f"in {folder}, {mount or 'unknown'}")
    try:
        mode = folder.stat().st_mode & 0o077
    except OSError:
        return
    if mode:
        yield warning("gcs folder", f"other users can read the secrets in {folder}", f"chmod 700 {folder}")
    else:
        yield ok("gcs folder", f"only its owner can read {folder}")


def descriptors(storage: Path, log_actors: int) -> Iterator[Finding]:
    """Check the limit of open files. A log actor has a file open for each segment of its partitions."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)  # Ray raises the soft limit to this one
    segments = sum(1 for _ in (storage / "logs").glob("*/*.log"))
    needed = _FILES_OF_RAY + 2 * -(-segments // max(1, log_actors))
    said = f"at most {limit}, for {counted(segments, 'segment')} of {counted(log_actors, 'log actor')}"
    mend = f"ulimit -Hn {_ADVISED_FILES} before muster up, or LimitNOFILE={_ADVISED_FILES} in its unit of systemd"
    if limit == resource.RLIM_INFINITY or limit >= max(_FILES, needed):
        yield ok("open files", "unlimited" if limit == resource.RLIM_INFINITY else said)
    elif limit < max(_MIN_FILES, needed):
        yield failed("open files", f"{said}: {max(_MIN_FILES, needed)} are needed", mend)
    else:
        yield warning("open files", f"{said}: few for many clients", mend)


def memory(config: MusterConfig, *, is_running: bool) -> Iterator[Finding]:
    """Check that the processes of all actors fit. Of offsets partitions, those in use have one."""
    total = min(psutil.virtual_memory().total, _limit())
    free = psutil.virtual_memory().available
    gateways = config.gateway_count or 1
    fixed = gateways + config.log_actors + 3  # controller, reconciler, standby
    least = _BASE_BYTES + fixed * _ACTOR_BYTES
    most = least + config.offsets_topic_num_partitions * _ACTOR_BYTES
    said = (
        f"{_mib(free)} free of {_mib(total)}; {counted(fixed, 'actor')} and up to "
        f"{counted(config.offsets_topic_num_partitions, 'offsets partition')} need {_mib(least)} to {_mib(most)}"
    )
    mend = "add memory, or lower offsets.topic.num.partitions before the first start"
    if is_running:
        yield ok("memory", f"{_mib(free)} free of {_mib(total)}; Muster runs")
    elif min(free, total) < least:
        yield failed("memory", said, mend)
    elif min(free, total) < most:
        yield warning("memory", said, mend)
    else:
        yield ok("memory", said)


def kernel() -> Iterator[Finding]:
    """Check settings that matter under load."""
    somaxconn = _number(_SOMAXCONN_FILE)
    if somaxconn is not None and somaxconn < _SOMAXCONN:
        yield warning(
            "somaxconn",
            f"{somaxconn}: when many clients connect at once, some wait for seconds",
            f"sysctl -w net.core.somaxconn={4 * _SOMAXCONN}",
        )
    else:
        yield ok("somaxconn", str(somaxconn or "unknown"))
    swappiness = _number(_SWAPPINESS_FILE)
    if psutil.swap_memory().total and (swappiness or 0) > _SWAPPINESS:
        yield warning(
            "swap",
            f"on, with vm.swappiness={swappiness}: an actor that is swapped out may count as dead",
            "sysctl -w vm.swappiness=1, or swapoff -a",
        )
    else:
        yield ok("swap", "off" if not psutil.swap_memory().total else f"vm.swappiness={swappiness}")


def _limit() -> int:
    text = _CGROUP_LIMIT.read_text().strip() if _CGROUP_LIMIT.is_file() else "max"
    return int(text) if text.isdecimal() else psutil.virtual_memory().total


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _mib(size_bytes: int) -> str:
    return f"{size_bytes >> 20} MiB"
