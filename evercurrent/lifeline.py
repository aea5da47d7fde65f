"""The line between the supervisor and a role it started: one socket pair, whose end ends the role.

The role says once that it is ready (its port), or why it cannot be; when the supervisor dies, however, the line breaks and
the role is killed: everything it does may be cut off anywhere.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from typing import Any

from store.broker.lifeline import die_with_parent
from store.errors import EvercurrentError

LINE_BYTES_MAX = 4096


class Lifeline:
    """The role's end. Without a supervisor (`fd` None) nothing is told and nothing is watched."""

    def __init__(self, fd: int | None) -> None:
        self._line = None if fd is None else socket.socket(fileno=fd)
        if self._line is not None:
            self._line.set_inheritable(False)
            die_with_parent(signal.SIGKILL, os.getppid())
            threading.Thread(target=self._watch, args=(self._line,), name="lifeline", daemon=True).start()

    def ready(self, port: int | None = None) -> None:
        self._tell({"ready": True, "port": port})

    def cannot(self, error: EvercurrentError) -> None:
        self._tell({"error": {"code": error.code, "message": error.message}})

    def _tell(self, words: dict[str, Any]) -> None:
        if self._line is not None:
            self._line.sendall(json.dumps(words).encode() + b"\n")

    @staticmethod
    def _watch(line: socket.socket) -> None:
        try:
            while line.recv(64):
                pass
        except OSError:
            pass
        os.kill(os.getpid(), signal.SIGKILL)
