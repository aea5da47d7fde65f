"""A process with a fleet, to be killed by tests: `python fleet_owner.py URL FOLDER COUNT`. Prints `ready PID PID …`, then waits.

Its children beat so seldom that only the kernel can end them in time.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

from store.clock import SystemClock
from store.telemetry import log_nowhere
from workers.fleet import Fleet

WORKER = Path(__file__).parent / "worker_child.py"


def main(url: str, folder: str, count: int) -> None:
    log_nowhere()
    command = [sys.executable, "-P", str(WORKER), url, folder]
    fleet = Fleet(command, count, SystemClock(), lambda _pid, _session: None, lease_seconds=6_000)
    fleet.start()
    while fleet.ready < count:
        threading.Event().wait(0.005)
    print("ready", *fleet.pids, flush=True)
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
