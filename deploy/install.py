"""Installs requirements by pip, and says in one line how far it is: ``python deploy/install.py requirements.lock``.

Runs in the Python that it installs for, with nothing but the standard library. What pip prints is shown if it fails.
Exit code: that of pip.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

_PACKAGE = re.compile(r"^([A-Za-z0-9][\w.-]*)==", re.MULTILINE)
_LINE_S = 15.0
"""Without a terminal, a line comes so often."""
_SHOWN = 40
_SLOW = {"pyspark": ", which takes a minute"}


def main(requirements: Path) -> int:
    total = len(_PACKAGE.findall(requirements.read_text()))
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
    command += ["--no-input", "--root-user-action", "ignore", "--require-hashes", "-r", str(requirements)]
    last: deque[str] = deque(maxlen=_SHOWN)
    progress = _Progress(total)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            last.append(line)
            progress.read(line.strip())
    progress.end()
    if pip.returncode:
        sys.stderr.writelines(last)
        print(f"muster: pip could not install {requirements}: see above", file=sys.stderr)
    return pip.returncode


class _Progress:
    """One line on a terminal, which changes; a line now and then in a pipe."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._collected = 0
        self._is_live = sys.stdout.isatty()
        self._began_s = self._said_s = time.monotonic()

    def read(self, line: str) -> None:
        """Count a line of pip."""
        words = line.split()
        if line.startswith("Collecting "):
            self._collected += 1
            self._say(f"{self._collected} of {self._total} packages downloaded: {words[1].partition('==')[0]}")
        elif line.startswith("Building wheel for ") and words[-1] == "started":
            self._say(f"{words[3]} is built from its source{_SLOW.get(words[3], '')}", must=True)
        elif line.startswith("Installing collected packages"):
            self._say(f"{self._total} packages are unpacked, which takes half a minute", must=True)

    def _say(self, text: str, *, must: bool = False) -> None:
        now_s = time.monotonic()
        if self._is_live:
            print(f"\r\x1b[K   {text}", end="", flush=True)
        elif must or now_s - self._said_s >= _LINE_S:
            self._said_s = now_s
            print(f"   {text}", flush=True)

    def end(self) -> None:
        """Nothing more comes."""
        if self._is_live:
            print("\r\x1b[K", end="")
        print(f"   done in {time.monotonic() - self._began_s:.0f} s", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1])))
    except KeyboardInterrupt:
        sys.exit(130)
