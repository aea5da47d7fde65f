"""The process that reads documents of risky formats for a sandbox: one after the other, within limits, until its parent is gone.

Started as `python -m indexer.sandbox.child MEMORY_BYTES_MAX TEXT_CHARS_MAX UNPACKED_BYTES_MAX`. A frame comes in on standard input
(a JSON head, then the document's bytes), a frame goes out on what was standard output; whatever a library prints goes nowhere.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import BinaryIO

from indexer.load.archives import check_archive
from indexer.load.registry import loader_of
from indexer.sandbox.frames import LENGTH, READY, broken, encoded, framed, rejected
from store.errors import LoaderLimitReached, Rejected
from store.model import LoadedText

PR_SET_PDEATHSIG = 1
SAVE_ANEW = "save it anew in a simpler form"


def main(arguments: Sequence[str]) -> int:
    memory_bytes_max, text_chars_max, unpacked_bytes_max = (int(argument) for argument in arguments)
    answers = os.fdopen(os.dup(1), "wb")
    _silence()
    _die_with_parent()
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes_max, memory_bytes_max))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _answer(answers, READY)
    questions = sys.stdin.buffer
    while (head := _frame(questions)) is not None:
        content = _frame(questions)
        if content is None:
            break
        _answer(answers, answer(json.loads(head)["media_type"], content, text_chars_max, unpacked_bytes_max))
    return 0


def answer(media_type: str, content: bytes, text_chars_max: int, unpacked_bytes_max: int) -> bytes:
    """The text, the rejection, or what broke, as bytes."""
    try:
        return encoded(read(media_type, content, text_chars_max, unpacked_bytes_max))
    except Rejected as error:
        return rejected(error)
    except MemoryError:
        return rejected(
            LoaderLimitReached(
                media_type=media_type, reason="it needs more memory than it may use", way="raise indexer.load.memory_bytes_max"
            )
        )
    except RecursionError:
        return rejected(LoaderLimitReached(media_type=media_type, reason="it is nested beyond the limit of its reader", way=SAVE_ANEW))
    except Exception as error:  # noqa: BLE001 - the parent names it
        return broken(error, traceback.format_exc(limit=-8))


def read(media_type: str, content: bytes, text_chars_max: int, unpacked_bytes_max: int) -> LoadedText:
    check_archive(content, media_type, unpacked_bytes_max)
    loaded = loader_of(media_type)(content, media_type)
    if len(loaded.text) > text_chars_max:
        reason = f"its text has {len(loaded.text)} characters, the limit is {text_chars_max}"
        raise LoaderLimitReached(media_type=media_type, reason=reason, way="raise indexer.load.text_chars_max")
    return loaded


def _answer(stream: BinaryIO, payload: bytes) -> None:
    stream.write(framed(payload))
    stream.flush()


def _frame(stream: BinaryIO) -> bytes | None:
    """None at the end."""
    length = stream.read(LENGTH.size)
    if len(length) < LENGTH.size:
        return None
    (count,) = LENGTH.unpack(length)
    payload = stream.read(count)
    return payload if len(payload) == count else None


def _silence() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def _die_with_parent() -> None:
    """Also when the parent is killed while this process is busy; the end of its questions tells it otherwise."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == 1:
            sys.exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
