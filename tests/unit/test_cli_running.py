from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from evercurrent.ports import Door, check_doors
from evercurrent.running import Running, RunningProcess, ServerSilent, ask, find_running, write_running
from store.errors import CatalogNewer, ConfigWrong, PortTaken
from store.folder import LAYOUT_FILE, DataFolder, prepare_folder, try_lock

LOOPBACK = "127.0.0.1"


def test_what_the_supervisor_writes_is_read_back(tmp_path: Path) -> None:
    running = Running(os.getpid(), (RunningProcess("indexer", 7, 8100),), {"intake": "http://x"}, "unix:///r")
    write_running(DataFolder(tmp_path), running)
    assert find_running(DataFolder(tmp_path)) == running


def test_a_file_whose_writer_is_dead_counts_as_none(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    write_running(DataFolder(tmp_path), Running(child.pid))
    assert find_running(DataFolder(tmp_path)) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}'])
def test_a_damaged_file_counts_as_none(tmp_path: Path, text: str) -> None:
    DataFolder(tmp_path).up.write_text(text)
    assert find_running(DataFolder(tmp_path)) is None


def test_a_server_that_is_not_there_is_said_to_be_silent() -> None:
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        url = f"http://{LOOPBACK}:{free.getsockname()[1]}/"
    with pytest.raises(ServerSilent, match="does not answer"):
        ask(url, seconds_max=2)


def test_a_port_in_use_names_its_setting() -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=rf"{port}.*indexer\.http\.port"):
            check_doors([Door("retriever.http.port", LOOPBACK, 0), Door("indexer.http.port", LOOPBACK, port)])


def test_without_keys_no_server_listens_to_the_network() -> None:
    with pytest.raises(ConfigWrong, match=r"indexer\.http\.host"):
        check_doors([Door("indexer.http.port", "0.0.0.0", 0)])


def test_a_data_folder_is_marked_once_and_a_later_one_refused(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    prepare_folder(folder)
    prepare_folder(folder)
    assert folder.path.stat().st_mode & 0o777 == 0o700
    (folder.path / LAYOUT_FILE).write_text("2\n")
    with pytest.raises(CatalogNewer):
        prepare_folder(folder)


def test_a_lock_has_one_holder_and_ends_with_the_block(tmp_path: Path) -> None:
    with try_lock(tmp_path / "l") as mine:
        assert mine
        with try_lock(tmp_path / "l") as also_mine:
            assert not also_mine
    with try_lock(tmp_path / "l") as again:
        assert again
