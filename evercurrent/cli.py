"""The command `evercurrent`: wires the verbs and turns the error tree into exit codes.

0 done, 1 some documents failed or findings, 2 wrong use, 3 could not finish. No traceback reaches a terminal: that of a fault
of our own goes to the data folder's log. Verbs import what they need when they run, so that `sync` with nothing to do is quick.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from evercurrent import verbs_collections, verbs_look, verbs_mend, verbs_run, verbs_sources, verbs_split, verbs_sync
from evercurrent.call import DATA_DEFAULT
from evercurrent.command_line import Interrupted, run_command
from evercurrent.say import complain, speak_utf8
from store.errors import CatalogFull, EvercurrentError, Misuse
from store.folder import DataFolder
from store.telemetry import log_nowhere, log_to_file

EXIT_DONE = 0
EXIT_FINDINGS = 1
EXIT_MISUSE = 2
EXIT_UNFINISHED = 3

GROUPS = (verbs_sync, verbs_look, verbs_sources, verbs_collections, verbs_split, verbs_mend, verbs_run)
VERBS = {name: function for group in GROUPS for name, function in group.VERBS.items()}
HIDDEN = frozenset().union(*(group.HIDDEN for group in GROUPS))
COMMANDS = tuple(name for name in VERBS if name not in HIDDEN)
"""Every command that people may use."""

INTERRUPTED = {"sync": "Interrupted; the next `evercurrent sync` finishes the rest."}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    speak_utf8()
    log_nowhere()
    try:
        if not given:
            run_command(VERBS, HIDDEN, ["--help"])
            return EXIT_MISUSE
        return run_command(VERBS, HIDDEN, given)
    except EvercurrentError as error:
        return complain(error.code, error.message, EXIT_MISUSE if isinstance(error, Misuse) else EXIT_UNFINISHED, as_json)
    except (KeyboardInterrupt, Interrupted):
        return complain("interrupted", INTERRUPTED.get(given[0], "Interrupted; run it again to finish."), EXIT_UNFINISHED, as_json)
    except BrokenPipeError:
        _close_stdout()
        return EXIT_UNFINISHED
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return complain(CatalogFull.code, CatalogFull(path=str(data_folder_of(given).path)).message, EXIT_UNFINISHED, as_json)
        return _confess(error, given, as_json)
    except Exception as error:  # noqa: BLE001 (the last door: what is not in the tree is a fault of ours)
        return _confess(error, given, as_json)


def data_folder_of(arguments: Sequence[str]) -> DataFolder:
    """The data folder of a command line that may not have been understood."""
    for position, argument in enumerate(arguments):
        if argument.startswith("--data="):
            return DataFolder(Path(argument.removeprefix("--data=")))
        if argument == "--data" and position + 1 < len(arguments):
            return DataFolder(Path(arguments[position + 1]))
    return DataFolder(Path(os.environ.get("EVERCURRENT_DATA") or DATA_DEFAULT))


def _confess(error: BaseException, arguments: Sequence[str], as_json: bool) -> int:
    """One sentence for the person, the traceback for the log."""
    import structlog

    path = data_folder_of(arguments).log("command")
    try:
        log_to_file(path, "command")
        structlog.get_logger().error("command_failed", verb=arguments[0] if arguments else "", exc_info=error)
        where = f"the details are in {path}"
    except OSError:
        where = "and its details could not be written"
    sentence = f"Something went wrong inside Evercurrent ({type(error).__name__}); {where}."
    return complain(EvercurrentError.code, sentence, EXIT_UNFINISHED, as_json)


def _close_stdout() -> None:
    """Whoever read our output has gone: nothing more is written, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
