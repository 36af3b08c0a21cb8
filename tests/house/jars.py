"""The jars that come with Python packages: Maven coordinates for the bill of materials, and their vulnerabilities.

ZooKeeper and Spark run from pyspark's jars; raydp and ray have some of their own. pip-audit knows nothing of them, and
OSV (https://google.github.io/osv.dev/post-v1-querybatch/) knows Maven's packages.
"""

from __future__ import annotations

import json
import re
import urllib.request
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

OSV = "https://api.osv.dev/v1/querybatch"
_OSV_S = 60
_NAME = re.compile(r"(.+?)-(\d[\w.]*(?:-M\d+|-\d+|-GA)?)\.jar")
_PROPERTIES = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")
_GROUPS = {
    "(RoaringBitmap|shims)": "org.roaringbitmap",
    "activation": "javax.activation",
    "(algebra|cats-kernel|spire.*)_2.12": "org.typelevel",
    "annotations": "org.jetbrains",
    "arpack_combined_all": "net.sourceforge.f2j",
    "breeze.*_2.12": "org.scalanlp",
    "chill(-java|_2.12)": "com.twitter",
    "derby": "org.apache.derby",
    "gson": "com.google.code.gson",
    "hadoop-client-runtime": "org.apache.hadoop",
    "ivy": "org.apache.ivy",
    "jackson-(core|mapper)-asl": "org.codehaus.jackson",
    "jackson-module-scala_2.12": "com.fasterxml.jackson.module",
    "javassist": "org.javassist",
    "jdo-api": "javax.jdo",
    "jodd-core": "org.jodd",
    "json4s-.*_2.12": "org.json4s",
    "jsr305": "com.google.code.findbugs",
    "(jta|transaction-api)": "javax.transaction",
    "lib(fb303|thrift)": "org.apache.thrift",
    "lz4-java": "org.lz4",
    "objenesis": "org.objenesis",
    "oro": "oro",
    "rocksdbjni": "org.rocksdb",
    "scala-(compiler|library|reflect)": "org.scala-lang",
    "scala-(collection-compat|parser-combinators|xml)_2.12": "org.scala-lang.modules",
    "snappy-java": "org.xerial.snappy",
    "stax-api": "stax",
    "tink": "com.google.crypto.tink",
    "xz": "org.tukaani",
    "zstd-jni": "com.github.luben",
}
"""Maven's group ids of jars that do not have theirs, by a pattern of their names."""


class Jar(NamedTuple):
    name: str
    version: str
    group: str | None
    """Maven's group id; None if the jar does not say."""
    package: str
    """The Python package that has it."""

    @property
    def purl(self) -> str | None:
        """Package URL, see https://github.com/package-url/purl-spec."""
        return None if self.group is None else f"pkg:maven/{self.group}/{self.name}@{self.version}"


def jars(packages: Path) -> list[Jar]:
    """Return the jars of the packages in that folder, except those without a version (the JDK's own, and Ray's)."""
    found = {_jar(path, path.relative_to(packages).parts[0]) for path in packages.rglob("*.jar")}
    return sorted((each for each in found if each is not None), key=lambda each: (each.package, each.name))


def _jar(path: Path, package: str) -> Jar | None:
    with zipfile.ZipFile(path) as archive:
        inside = [archive.read(each).decode() for each in archive.namelist() if _PROPERTIES.fullmatch(each)]
    for properties in map(_properties, inside):  # a jar may have others in itself
        if path.name.startswith(f"{properties.get('artifactId')}-{properties.get('version')}"):
            return Jar(properties["artifactId"], properties["version"], properties["groupId"], package)
    if (named := _NAME.fullmatch(path.name)) is None:
        return None
    groups = [group for pattern, group in _GROUPS.items() if re.fullmatch(pattern, named[1])]
    return Jar(named[1], named[2], groups[0] if groups else None, package)


def _properties(text: str) -> dict[str, str]:
    return dict(line.strip().split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def components(found: Iterable[Jar]) -> list[dict[str, Any]]:
    """For a bill of materials (CycloneDX)."""
    return [
        {
            "type": "library",
            "bom-ref": f"{jar.package}/{jar.name}@{jar.version}",
            "name": jar.name,
            "version": jar.version,
            **({} if jar.group is None else {"group": jar.group, "purl": jar.purl}),
            "properties": [{"name": "muster:package", "value": jar.package}],
        }
        for jar in found
    ]


def vulnerabilities(found: Iterable[Jar], url: str = OSV) -> dict[Jar, list[str]]:
    """Return the ids of the known vulnerabilities of each jar with coordinates.

    Raises OSError or ValueError without the service.
    """
    queried = [jar for jar in found if jar.purl is not None]
    body = json.dumps({"queries": [{"package": {"purl": jar.purl}} for jar in queried]}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=_OSV_S) as response:
        results: list[Mapping[str, Any]] = json.load(response)["results"]
    return {jar: [each["id"] for each in one.get("vulns", ())] for jar, one in zip(queried, results, strict=True)}
