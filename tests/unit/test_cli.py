from __future__ import annotations

import json
from pathlib import Path

import pytest
from kit.embedding_server import EmbeddingServer

from evercurrent.cli import data_folder_of, main
from store.folder import LAYOUT_FILE

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EVERCURRENT_DATA", raising=False)
    monkeypatch.delenv("EVERCURRENT_CONFIG", raising=False)
    monkeypatch.setenv("EVERCURRENT_INDEXER__EMBEDDING__PROVIDER", "hashing")


def folder_of(tmp_path: Path, **texts: str) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    for name, text in texts.items():
        (docs / f"{name}.md").write_text(text, "utf-8")
    return docs


def answer(capsys: Capture, *arguments: str) -> tuple[int, dict[str, object], str]:
    code = main([*arguments, "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out), captured.err


def test_a_missing_folder_is_one_sentence_and_exit_2(capsys: Capture) -> None:
    code, words, stderr = answer(capsys, "sync", "nowhere")
    assert (code, words["error"]) == (2, {"code": "folder_missing", "message": "There is no file or folder 'nowhere'."})
    assert stderr == "evercurrent: There is no file or folder 'nowhere'.\n"


def test_a_mistyped_folder_leaves_no_data_folder_behind(tmp_path: Path, capsys: Capture) -> None:
    assert answer(capsys, "sync", "nowhere")[0] == 2
    assert answer(capsys, "sync")[0] == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", " ", "a/b", "a\nb", "x" * 129, "\udcff"])
@pytest.mark.parametrize("option", ["--namespace", "--collection"])
def test_a_name_that_fits_no_url_is_refused(tmp_path: Path, capsys: Capture, option: str, name: str) -> None:
    code, words, _ = answer(capsys, "sync", str(folder_of(tmp_path, a="hello")), option, name)
    assert (code, words["error"]["code"]) == (2, "misuse")  # type: ignore[index]


@pytest.mark.parametrize(
    ("setting", "value"),
    [("API_KEY", "sk-line\nbreak"), ("API_KEY", "sk-gr\u00fcn"), ("BASE_URL", "localhost:8000/v1"), ("BASE_URL", "ftp://host/v1")],
)
def test_an_endpoint_or_key_that_cannot_be_used_is_wrong_use(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, setting: str, value: str
) -> None:
    monkeypatch.setenv("EVERCURRENT_INDEXER__EMBEDDING__PROVIDER", "openai")
    monkeypatch.setenv("EVERCURRENT_INDEXER__EMBEDDING__MODEL", "small")
    monkeypatch.setenv("EVERCURRENT_INDEXER__EMBEDDING__DIMENSIONS", "8")
    monkeypatch.setenv(f"EVERCURRENT_INDEXER__EMBEDDING__{setting}", value)
    code, words, stderr = answer(capsys, "sync", str(folder_of(tmp_path, a="hello")))
    assert (code, words["error"]["code"]) == (2, "config_wrong")  # type: ignore[index]
    assert setting.lower() in stderr
    assert value not in stderr


def test_a_misspelt_verb_or_option_is_exit_2_and_json(capsys: Capture) -> None:
    assert answer(capsys, "synk")[:2] == (2, {"error": {"code": "misuse", "message": "No such command 'synk'. Did you mean 'sync'?"}})
    assert answer(capsys, "sync", "--dta", "x")[0] == 2


def test_an_unknown_configuration_key_names_the_nearest(tmp_path: Path, capsys: Capture) -> None:
    docs = folder_of(tmp_path, a="hello")
    (tmp_path / "evercurrent.toml").write_text("[workers]\ncuont = 3\n")
    code, words, _ = answer(capsys, "sync", str(docs))
    assert (code, words["error"]["code"]) == (2, "config_wrong")  # type: ignore[index]
    assert "workers.count" in words["error"]["message"]  # type: ignore[index]


def test_a_data_folder_of_a_later_layout_is_refused(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / ".evercurrent").mkdir()
    (tmp_path / ".evercurrent" / LAYOUT_FILE).write_text("99\n")
    for verb in ("status", "documents", "export", "check"):
        code, words, _ = answer(capsys, verb)
        assert (code, words["error"]["code"]) == (2, "catalog_newer")  # type: ignore[index]


def test_plan_counts_without_writing_a_catalog(tmp_path: Path, capsys: Capture) -> None:
    docs = folder_of(tmp_path, a="# One\n\nhello", b="# Two\n\nworld", empty="")
    code, words, _ = answer(capsys, "plan", str(docs))
    assert (code, words["embedded"]) == (0, 2)
    assert words["documents"] == {"added": 3, "updated": 0, "unchanged": 0, "moved": 0, "deleted": 0, "failed": 0, "empty": 1, "ignored": 0}
    assert words["chunks"] == {"added": 2, "kept": 0, "moved": 0, "dropped": 0}
    assert not (tmp_path / ".evercurrent").exists()


def test_equal_texts_are_planned_to_be_embedded_once(tmp_path: Path, capsys: Capture) -> None:
    docs = folder_of(tmp_path, a="the same", b="the same")
    words = answer(capsys, "plan", str(docs))[1]
    assert (words["embedded"], words["reused"]) == (1, 1)


def test_looking_before_anything_was_indexed_finds_nothing_and_writes_nothing(tmp_path: Path, capsys: Capture) -> None:
    assert answer(capsys, "documents")[:2] == (0, {"documents": [], "cursor": None})
    assert answer(capsys, "check")[:2] == (0, {"ok": True, "findings": []})
    assert answer(capsys, "quarantine")[:2] == (0, {"documents": []})
    assert answer(capsys, "search", "anything")[1]["hits"] == []
    assert answer(capsys, "status")[1]["documents"] == {"indexed": 0, "pending": 0, "quarantined": 0, "held": 0, "ignored": 0}
    assert not (tmp_path / ".evercurrent").exists()


@pytest.mark.parametrize("verb", [("search", "x"), ("status",), ("documents",), ("export",), ("quarantine",), ("sources",), ("check",)])
def test_looking_where_there_is_no_index_says_so(capsys: Capture, verb: tuple[str, ...]) -> None:
    for as_json in ((), ("--json",)):
        assert main([*verb, *as_json]) == 0
        note = 'There is no index in .evercurrent yet: run "evercurrent sync PATH", or name another --data.\n'
        assert capsys.readouterr().err.count(note) == 1


def test_another_collection_than_main_must_exist(capsys: Capture) -> None:
    for arguments in (("documents",), ("search", "x"), ("export",), ("status",)):
        code, words, _ = answer(capsys, *arguments, "--collection", "notes")
        assert (code, words["error"]["code"]) == (2, "unknown_collection")  # type: ignore[index]


def test_a_wrong_filter_or_k_names_the_place(capsys: Capture) -> None:
    assert answer(capsys, "search", "x", "--filter", "[]")[1]["error"]["code"] == "query_rejected"  # type: ignore[index]
    assert answer(capsys, "search", "x", "-k", "0")[0] == 2


def test_a_refused_key_is_exit_2_before_anything_is_recorded(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = folder_of(tmp_path, a="hello")
    with EmbeddingServer() as server:
        server.behaviour.failing, server.behaviour.failing_status = 100, 401
        for name, value in {"PROVIDER": "openai", "BASE_URL": server.base_url, "MODEL": "m", "DIMENSIONS": "8", "API_KEY": "wrong"}.items():
            monkeypatch.setenv(f"EVERCURRENT_INDEXER__EMBEDDING__{name}", value)
        code, words, stderr = answer(capsys, "sync", str(docs))
    assert (code, words["error"]["code"]) == (2, "embedder_refused")  # type: ignore[index]
    assert "wrong" not in stderr
    assert answer(capsys, "documents")[1]["documents"] == []


def test_init_writes_once(tmp_path: Path, capsys: Capture) -> None:
    assert answer(capsys, "init")[0] == 0
    assert "[indexer.split]" in (tmp_path / "evercurrent.toml").read_text("utf-8")
    assert answer(capsys, "init")[0] == 2
    assert answer(capsys, "init", "--force")[0] == 0


def test_a_fault_of_ours_is_a_sentence_and_its_traceback_is_in_the_log(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evercurrent.state.state_json", lambda _call, _catalog: 1 / 0)
    code, words, stderr = answer(capsys, "status")
    assert (code, words["error"]["code"]) == (3, "internal")  # type: ignore[index]
    assert "Traceback" not in stderr
    assert "ZeroDivisionError: division by zero" in (tmp_path / ".evercurrent" / "logs" / "command.log").read_text("utf-8")


def test_a_full_disk_is_exit_3(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_call: object, _catalog: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("evercurrent.state.state_json", full)
    code, words, _ = answer(capsys, "status")
    assert (code, words["error"]["code"]) == (3, "catalog_full")  # type: ignore[index]


def test_the_data_folder_is_known_even_of_a_line_that_was_not_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    assert data_folder_of(["x", "--data", "d"]).path == Path("d")
    assert data_folder_of(["--data=e"]).path == Path("e")
    monkeypatch.setenv("EVERCURRENT_DATA", "f")
    assert data_folder_of([]).path == Path("f")


def test_an_empty_answer_says_what_is_still_on_its_way() -> None:
    from evercurrent.verbs_look import remarks_on

    empty = {"hits": [], "degraded": []}
    assert remarks_on(empty, 0) == ["Nothing was found."]
    assert remarks_on(empty, 12) == ["Nothing was found.", "12 documents are still being indexed; search again in a moment."]
    assert remarks_on({"hits": [{}], "degraded": ["dense"]}, 1) == [
        "Answered without: dense.",
        "1 document is still being indexed; search again in a moment.",
    ]


def test_the_score_that_min_score_compares_stands_beside_the_one_that_ranks(capsys: Capture) -> None:
    from evercurrent.verbs_look import say_hits, score_words

    hit = {"score": 0.898, "scores": {"dense": 0.17, "keyword": 3.5}, "document": "a.md", "start": 0, "end": 5, "text": "hello"}
    assert [score_words(hit, mode) for mode in ("hybrid", "dense", "keyword")] == [
        "0.898 (cosine 0.17)",
        "0.898 (cosine 0.17)",
        "0.898 (BM25 3.50)",
    ]
    alone = hit | {"scores": {"dense": None, "keyword": 3.5}}
    assert score_words(alone, "hybrid") == "0.898"
    say_hits({"hits": [hit, alone]}, "hello", "hybrid")
    assert capsys.readouterr().out == "0.8980\ta.md\t0-5\thello\t0.1700\n0.8980\ta.md\t0-5\thello\t\n"


def test_an_interrupted_command_could_not_finish_and_says_so(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("evercurrent.passes.look", interrupt)
    code, words, stderr = answer(capsys, "sync", str(folder_of(tmp_path, a="hello")))
    assert (code, words["error"]["code"]) == (3, "interrupted")  # type: ignore[index]
    assert stderr == "evercurrent: Interrupted; the next `evercurrent sync` finishes the rest.\n"


def test_a_table_is_no_setting(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evercurrent.toml").write_text("store = 5\n")
    code, words, _ = answer(capsys, "status")
    assert (code, words["error"]) == (2, {"code": "config_wrong", "message": "'store' is a table of settings, not a setting."})
    (tmp_path / "evercurrent.toml").unlink()
    monkeypatch.setenv("EVERCURRENT_INDEXER", "1")
    code, words, _ = answer(capsys, "status")
    assert (code, words["error"]["code"]) == (2, "config_wrong")  # type: ignore[index]
