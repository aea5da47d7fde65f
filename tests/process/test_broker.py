"""The embedded queue server: one owner a folder, on a private socket, gone when its owner is, its data not."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from kit.brokers import alive, child, kill, line_of, running_broker, until

from store.bell import Bell, Topic
from store.broker import broker_errors, connect, find_broker, open_broker
from store.broker.locate import SOCKET_PATH_BYTES_MAX, BrokerFiles, find_server_binary
from store.clock import SystemClock
from store.errors import BrokerFolderTaken, BrokerMissing, BrokerUnavailable, ConfigWrong
from store.folder import DataFolder

pytestmark = pytest.mark.process

OWNER = """
import pathlib, signal, sys
from store.broker import open_broker
from store.clock import SystemClock
broker = open_broker(pathlib.Path(sys.argv[1]), None, SystemClock())
print(broker.server_pid, flush=True)
signal.pause()
"""


@pytest.fixture(autouse=True)
def _no_given_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)


def socket_of(url: str) -> Path:
    return Path(connect(url).connection_pool.connection_kwargs["path"])


def test_an_opened_broker_answers_and_is_found_and_a_closed_one_is_not(tmp_path: Path) -> None:
    assert find_broker(tmp_path, None) is None
    with running_broker(tmp_path) as broker:
        assert connect(broker.url).ping()
        assert find_broker(tmp_path, None) == broker.url
        pid = broker.server_pid
    assert find_broker(tmp_path, None) is None
    assert pid is not None
    assert not alive(pid)


def test_only_its_user_reaches_the_socket_and_no_port_is_open(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        socket = socket_of(broker.url)
        assert stat.S_IMODE(socket.stat().st_mode) == 0o700
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        assert connect(broker.url).config_get("port")["port"] == "0"


def test_nothing_is_evicted_and_every_write_is_logged(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        settings = connect(broker.url).config_get("append*", "maxmemory-policy")
    assert (settings["appendonly"], settings["appendfsync"], settings["maxmemory-policy"]) == ("yes", "everysec", "noeviction")


def test_a_second_owner_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with running_broker(tmp_path), pytest.raises(BrokerFolderTaken, match=str(os.getpid())):
        open_broker(tmp_path, None, SystemClock())


def test_killing_the_owner_ends_the_server(tmp_path: Path) -> None:
    with child(OWNER, tmp_path) as owner:
        pid = int(line_of(owner))
        assert alive(pid)
        kill(owner.pid)
        until("the server is gone", lambda: not alive(pid))


def test_killing_the_keeper_ends_the_server_and_the_owner_starts_another(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        connect(broker.url).set("kept", "yes")
        first = broker.server_pid
        assert first is not None
        kill(parent_of(first))
        until("the first server is gone", lambda: not alive(first))
        until("another answers", lambda: broker.keep_alive() or find_broker(tmp_path, None))
        assert connect(broker.url).get("kept") == b"yes"


def test_a_killed_server_is_started_again_with_its_data(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        connect(broker.url).set("kept", "yes")
        first = broker.server_pid
        assert first is not None
        kill(first)
        until("another server runs", lambda: broker.server_pid not in (None, first))
        until("it answers", lambda: find_broker(tmp_path, None))
        assert connect(broker.url).get("kept") == b"yes"


def test_a_folder_whose_owner_was_killed_opens_again_with_its_data(tmp_path: Path) -> None:
    with child(OWNER, tmp_path) as owner:
        line_of(owner)
        client = connect(find_broker(tmp_path, None) or "")
        client.set("kept", "yes")
        owner.kill()
        owner.wait()
        with running_broker(tmp_path) as broker:
            assert connect(broker.url).get("kept") == b"yes"


def test_what_was_written_survives_a_clean_stop(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        connect(broker.url).set("kept", "yes")
    with running_broker(tmp_path) as broker:
        assert connect(broker.url).get("kept") == b"yes"


@pytest.mark.parametrize("name", ["with a space", 'quote " and # hash', "percent %41 ü"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    with running_broker(tmp_path / name) as broker:
        assert connect(broker.url).ping()
        assert find_broker(tmp_path / name, None) == broker.url


def test_a_folder_too_deep_for_a_socket_gets_a_private_one_elsewhere_and_leaves_nothing(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 90) / ("e" * 90)
    with running_broker(deep) as broker:
        socket = socket_of(broker.url)
        assert len(os.fsencode(socket)) <= SOCKET_PATH_BYTES_MAX
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        assert find_broker(deep, None) == broker.url
    assert not socket.parent.exists()


def test_a_temporary_folder_that_others_could_enter_is_not_used_again(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    left = tmp_path / "left"
    left.mkdir(mode=0o755)
    files = BrokerFiles(DataFolder(deep).broker)
    files.folder.mkdir(parents=True)
    files.address.write_text(f'{{"v": 1, "socket": "{os.fsencode(left / "broker.sock").hex()}"}}')
    with running_broker(deep) as broker:
        assert socket_of(broker.url).parent != left


def test_a_given_url_is_used_and_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_broker(tmp_path / "there") as there:
        given = open_broker(tmp_path / "here", there.url, SystemClock())
        assert (given.url, given.embedded, (tmp_path / "here").exists()) == (there.url, False, False)
        given.close()
        monkeypatch.setenv("REDIS_URL", there.url)
        assert open_broker(tmp_path / "here", None, SystemClock()).url == there.url
        assert find_broker(tmp_path / "here", None) == there.url
        assert connect(there.url).ping()


def test_a_given_url_that_does_not_answer_is_unavailable_and_its_password_is_not_told(tmp_path: Path) -> None:
    with pytest.raises(BrokerUnavailable) as caught:
        open_broker(tmp_path, "redis://:secret@127.0.0.1:1/0", SystemClock())
    assert "secret" not in caught.value.message


def test_a_given_url_that_is_none_is_wrong_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigWrong, match=r"store\.redis_url"):
        open_broker(tmp_path, "not a url", SystemClock())


def test_a_server_that_cannot_start_is_told_with_its_own_last_words(tmp_path: Path) -> None:
    appends = DataFolder(tmp_path).broker / "appendonlydir"
    appends.mkdir(parents=True)
    (appends / "appendonly.aof.manifest").write_text("nonsense\n")
    with pytest.raises(BrokerUnavailable, match="did not start"):
        open_broker(tmp_path, None, SystemClock())
    (appends / "appendonly.aof.manifest").unlink()
    with running_broker(tmp_path) as broker:
        assert connect(broker.url).ping()


def test_without_any_server_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BrokerMissing, match="apt-get install redis-server"):
        find_server_binary()
    on_path = tmp_path / "redis-server"
    on_path.write_text("#!/bin/sh\n")
    on_path.chmod(0o755)
    assert find_server_binary() == on_path


def test_a_client_without_a_server_raises_our_error(tmp_path: Path) -> None:
    with pytest.raises(BrokerUnavailable), broker_errors("unix:///gone"):
        connect(f"unix://{tmp_path}/gone.sock").ping()


def test_a_ring_wakes_a_listener_of_its_topic_only_and_none_is_lost_between_waits(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        bell = Bell(broker.url, SystemClock())
        listener = bell.listen(Topic.COMMIT)
        assert listener.wait(5) == ()
        bell.ring(Topic.LEDGER, "other")
        for seq in ("1", "2", "3"):
            bell.ring(Topic.COMMIT, seq)
        heard: tuple[str, ...] = ()
        while len(heard) < 3:
            heard += listener.wait(5)
        assert heard == ("1", "2", "3")


def test_a_ring_without_a_broker_is_counted_and_never_raised(tmp_path: Path) -> None:
    for url in (None, f"unix://{tmp_path}/gone.sock"):
        bell = Bell(url, SystemClock())
        for _ in range(3):
            bell.ring(Topic.LEDGER)
        assert bell.unrung == 3
        assert bell.listen(Topic.LEDGER).wait(0.01) == ()


def test_bell_and_listener_find_a_broker_that_was_restarted(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        bell = Bell(broker.url, SystemClock())
        listener = bell.listen(Topic.LEDGER)
        listener.wait(5)
        first = broker.server_pid
        assert first is not None
        kill(first)

        def heard() -> bool:
            bell.ring(Topic.LEDGER, "again")
            return "again" in listener.wait(0.2)

        until("a ring is heard again", heard)


def test_a_listener_wakes_once_when_rings_may_have_been_missed(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        listener = Bell(broker.url, SystemClock()).listen(Topic.COMMIT)
        listener.wait(5)
        first = broker.server_pid
        assert first is not None
        kill(first)
        listener.wait(0.1)
        woken = threading.Thread(target=listener.wait, args=(600,), daemon=True)
        woken.start()
        woken.join(10)
        assert not woken.is_alive()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
