from __future__ import annotations

import json
from pathlib import Path

import pytest
import structlog

from store import telemetry
from store.telemetry import clean_event, log_to_file, without_password


@pytest.fixture(autouse=True)
def _configured_anew() -> object:
    yield
    structlog.reset_defaults()


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_line_is_one_json_object_with_event_role_and_fields(tmp_path: Path) -> None:
    log_to_file(tmp_path / "logs" / "worker.log", "worker")
    structlog.get_logger().info("document_committed", document="a.md", added=3)
    (line,) = lines_of(tmp_path / "logs" / "worker.log")
    assert (line["event"], line["role"], line["document"], line["added"]) == ("document_committed", "worker", "a.md", 3)


def test_texts_and_secrets_never_reach_the_log() -> None:
    event = {"event": "e", "text": "secret words", "api_key": "k", "url": "redis://user:pass@host:1/0", "seq": 3}
    assert clean_event(event) == {"event": "e", "url": "redis://***@host:1/0", "seq": 3}


def test_a_url_without_a_password_stays() -> None:
    assert without_password("unix:///tmp/a@b/redis.sock") == "unix:///tmp/a@b/redis.sock"


def test_a_log_at_its_limit_becomes_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "LOG_BYTES_MAX", 400)
    path = tmp_path / "indexer.log"
    log_to_file(path, "indexer")
    for number in range(12):
        structlog.get_logger().info("tick", number=number)
    assert path.stat().st_size <= 400 + 200
    assert lines_of(path)[-1]["number"] == 11
    assert lines_of(path.with_name("indexer.log.1"))


def test_a_writer_follows_the_file_that_another_one_rotated(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    log_to_file(path, "worker")
    structlog.get_logger().info("before")
    path.rename(tmp_path / "worker.log.1")
    structlog.get_logger().info("after")
    assert [line["event"] for line in lines_of(path)] == ["after"]
