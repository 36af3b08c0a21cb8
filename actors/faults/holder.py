"""Holds a process by SIGSTOP and SIGCONT: ``python holder.py PID SPEED EXPIRES_MS``; requires nothing but Python.

SPEED 0 stops the process, a fraction lets it run for that part of every period; EXPIRES_MS 0 means forever. The holder
is independent of the process that started it, whose death therefore leaves no process stopped. It ends when the held
process ends, when it expires, and at SIGTERM, and then lets the held process continue. It prints its own pid once the
process is stopped for the first time.
"""

import os
import signal
import sys
import time

PERIOD_S = 0.1
_LOOK_S = 0.05


def started_of(pid: int) -> str | None:
    """When the process was started, which distinguishes it from a later one with the same pid; None if it has ended."""
    fields = _stat(pid)
    return None if fields[0] in "ZX" else fields[19]


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; only the state of a dead process if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - starts faster
            return file.read().rpartition(")")[2].split()
    except OSError:
        return ["X"]


def hold(pid: int, speed: float, expires_ms: int) -> None:
    """Hold the process until it ends or the time is over; then let it run. Raises SystemExit at SIGTERM."""
    started = started_of(pid)
    deadline_s = time.monotonic() + expires_ms / 1000 if expires_ms else float("inf")
    try:
        while time.monotonic() < deadline_s and started is not None and started_of(pid) == started:
            os.kill(pid, signal.SIGSTOP)
            _report_stopped(pid)
            time.sleep(max(0.0, min(PERIOD_S * (1 - speed) if speed else _LOOK_S, deadline_s - time.monotonic())))
            if speed:
                os.kill(pid, signal.SIGCONT)
                time.sleep(max(0.0, min(PERIOD_S * speed, deadline_s - time.monotonic())))
    finally:
        if started is not None and started_of(pid) == started:
            os.kill(pid, signal.SIGCONT)


def _report_stopped(pid: int) -> None:
    """Print the pid once the process has really stopped: signals take time, and another hold that ends continues it."""
    if not sys.stdout.closed:
        while _stat(pid)[0] not in "TtZX":
            time.sleep(0.001)
            os.kill(pid, signal.SIGSTOP)
        print(os.getpid(), flush=True)
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        sys.stdout.close()


def main() -> None:
    if os.fork():
        os._exit(0)
    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        hold(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
    except ProcessLookupError:
        return


if __name__ == "__main__":
    main()
