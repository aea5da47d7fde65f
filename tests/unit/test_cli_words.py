from __future__ import annotations

import urllib.error
from importlib.metadata import version

import pytest

from evercurrent.cli import main
from evercurrent.running import ServerSilent, ask
from evercurrent.say import counted
from evercurrent.state import state_lines, waiting_words
from evercurrent.verbs_sync import held_words, passed_over


def state(processes: list[dict[str, object]]) -> dict[str, object]:
    return {
        "documents": {"indexed": 1, "pending": 0},
        "chunks": 1,
        "queue": {"queued": 0},
        "lag_seconds": {"p50": None, "p95": None, "oldest_pending": 0.0},
        "health": {"state": "ok", "reasons": []},
        "processes": processes,
    }


def test_one_is_no_plural() -> None:
    assert (counted(1, "text"), counted(2, "text"), counted(0, "text")) == ("1 text", "2 texts", "0 texts")
    assert passed_over(1, "a", "is odd.") == "1 name was passed over, 'a': is odd."
    assert passed_over(2, "a", "is odd") == "2 names were passed over, the first is 'a': is odd."
    assert held_words(1, "gone").startswith("1 document is held and stays served: gone. ")
    assert waiting_words(1, "No answer.") == "1 document waits to be tried again: No answer"


def test_status_says_when_nothing_runs() -> None:
    line = "not running: nothing watches the folders; the index is as of the last pass."
    assert state_lines(state([]))[-1] == line
    assert line not in state_lines(state([{"role": "up", "pid": 1, "port": None}]))


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"evercurrent {version('evercurrent')}\n"


def test_a_server_that_is_not_there_is_told_in_plain_words() -> None:
    with pytest.raises(ServerSilent, match=r"does not answer: Connection refused\. Is") as caught:
        ask("http://127.0.0.1:1/x", seconds_max=2)
    assert isinstance(caught.value.__cause__, urllib.error.URLError)
