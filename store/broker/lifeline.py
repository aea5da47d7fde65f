"""Children that do not outlive their parent: the kernel's own promise where there is one (Linux), else nothing.

Every child also watches a pipe of its parent; that is the part that works everywhere.
"""

from __future__ import annotations

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(signal_number: int, parent_pid: int) -> None:
    """Asks the kernel to send this process `signal_number` when the thread that started it ends. Survives exec.

    Start such a child from a thread that lives as long as the child should. Exits at once when the parent is already gone.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)
