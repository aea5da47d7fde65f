"""The openai door: foreign errors become the tree's, answers are checked, the key appears nowhere."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest
from kit.embedding_server import EmbeddingServer, vector_of

from indexer.embedding.openai import retry_after_seconds
from indexer.embedding.port import Embedder, InputsRejected
from indexer.embedding.wiring import embedder_for, embedder_of
from store.config import EmbeddingTable
from store.errors import (
    EmbedderAnswerWrong,
    EmbedderRateLimited,
    EmbedderRefused,
    EmbedderUnavailable,
    InputRejected,
    Misuse,
    Rejected,
    Transient,
)

KEY = "sk-very-secret"


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as running:
        yield running


def table(server: EmbeddingServer, **settings: Any) -> EmbeddingTable:
    return EmbeddingTable(
        **{"provider": "openai", "base_url": server.base_url, "model": "small", "dimensions": 32, "api_key": KEY, **settings}
    )


def embedder(server: EmbeddingServer, **settings: Any) -> Embedder:
    return embedder_for(table(server, **settings))


def unit(text: str, dimensions: int = 32) -> bytes:
    vector = np.array(vector_of(text, dimensions))
    return bytes((vector / np.linalg.norm(vector)).astype("<f4").tobytes())


def same(expected: list[bytes], got: list[bytes]) -> bool:
    return all(np.allclose(np.frombuffer(a, "<f4"), np.frombuffer(b, "<f4"), atol=1e-7) for a, b in zip(expected, got, strict=True))


def test_the_probe_learns_the_dimensions_by_one_call(server: EmbeddingServer) -> None:
    server.behaviour.dimensions = 48
    assert embedder(server, dimensions=None).space.dimensions == 48
    assert (server.counts.calls, dict(server.counts.by_text)) == (1, {"evercurrent probe": 1})


def test_configured_dimensions_need_no_probe_and_are_asked_for(server: EmbeddingServer) -> None:
    built = embedder(server, dimensions=16)
    assert server.counts.calls == 0
    assert same([unit("a", 16)], built.embed_documents(["a"]))


def test_a_call_is_one_request_with_the_key(server: EmbeddingServer) -> None:
    built = embedder(server)
    built.embed_documents(["a b", "c"])
    assert (server.counts.calls, built.calls, built.tokens) == (1, 1, 3)
    assert f"Bearer {KEY}" == server.counts.last_authorization


def test_answers_out_of_order_are_put_in_order(server: EmbeddingServer) -> None:
    server.behaviour.reversed = True
    assert same([unit("a"), unit("b"), unit("c")], embedder(server).embed_documents(["a", "b", "c"]))


def test_answers_without_indexes_and_usage_are_taken_as_they_come(server: EmbeddingServer) -> None:
    server.behaviour.without_index = server.behaviour.without_usage = True
    built = embedder(server)
    assert same([unit("a"), unit("b")], built.embed_documents(["a", "b"]))
    assert built.tokens == 0


@pytest.mark.parametrize("fault", ["one_too_few", "wrong_dimension", "garbage"])
def test_a_wrong_answer_is_the_providers_fault_and_transient(server: EmbeddingServer, fault: str) -> None:
    setattr(server.behaviour, fault, True)
    with pytest.raises(EmbedderAnswerWrong):
        embedder(server).embed_documents(["a", "b"])


def test_a_missing_vector_is_noticed_without_indexes_too(server: EmbeddingServer) -> None:
    server.behaviour.one_too_few = server.behaviour.without_index = True
    with pytest.raises(EmbedderAnswerWrong, match="1 vectors for 2 texts"):
        embedder(server).embed_documents(["a", "b"])


def test_one_vector_that_is_not_finite_is_left_out_and_the_others_stay(server: EmbeddingServer) -> None:
    server.behaviour.not_finite = (1,)
    vectors = embedder(server).embed_documents(["a", "b", "c"])
    assert vectors[1] == b""
    assert same([unit("a"), unit("c")], [vectors[0], vectors[2]])


def test_no_finite_vector_at_all_is_a_wrong_answer(server: EmbeddingServer) -> None:
    server.behaviour.not_finite = (-1,)
    with pytest.raises(EmbedderAnswerWrong, match="finite"):
        embedder(server).embed_documents(["a", "b"])
    with pytest.raises(EmbedderAnswerWrong, match="finite"):
        embedder(server).embed_query("a")


def test_a_zero_vector_is_left_out_of_documents_and_zero_for_a_query(server: EmbeddingServer) -> None:
    server.behaviour.zero = ("a",)
    assert embedder(server).embed_documents(["a"]) == [b""]
    assert bytes(128) == embedder(server).embed_query("a")


def test_a_blank_query_makes_no_call(server: EmbeddingServer) -> None:
    assert bytes(128) == embedder(server).embed_query("  ")
    assert server.counts.calls == 0


def test_too_many_requests_say_when_to_come_back(server: EmbeddingServer) -> None:
    server.behaviour.rate_limited, server.behaviour.retry_after = 1, "7"
    built = embedder(server)
    with pytest.raises(EmbedderRateLimited) as caught:
        built.embed_documents(["a"])
    assert caught.value.retry_after_seconds == 7
    assert server.counts.calls == 1
    assert same([unit("a")], built.embed_documents(["a"]))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Tue, 01 Dec 2026 10:00:30 GMT", "date": "Tue, 01 Dec 2026 10:00:00 GMT"}, 30),
        ({"retry-after": "Tue, 01 Dec 2026 10:00:30 GMT"}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_beside_the_answers_own(headers: dict[str, str], seconds: float | None) -> None:
    assert seconds == retry_after_seconds(headers)


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408])
def test_a_broken_server_is_unavailable_and_asked_once(server: EmbeddingServer, status: int) -> None:
    server.behaviour.failing, server.behaviour.failing_status = 1, status
    with pytest.raises(EmbedderUnavailable, match=str(status)):
        embedder(server).embed_documents(["a"])
    assert server.counts.calls == 1


def test_a_server_that_hangs_is_unavailable_after_the_timeout(server: EmbeddingServer) -> None:
    server.behaviour.hang = True
    with pytest.raises(EmbedderUnavailable, match="in time"):
        embedder(server, timeout_seconds=0.2).embed_documents(["a"])


def test_a_call_that_hangs_on_the_latch_goes_on_when_released(server: EmbeddingServer) -> None:
    server.behaviour.hang = True
    got: list[list[bytes]] = []
    caller = threading.Thread(target=lambda: got.append(embedder(server).embed_documents(["a"])))
    caller.start()
    server.wait_hanging()
    assert got == []
    server.release()
    caller.join(20)
    assert same([unit("a")], got[0])


def test_nobody_listening_is_unavailable_and_names_the_endpoint() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        built = embedder_for(EmbeddingTable(provider="openai", base_url=url, model="m", dimensions=4))
        with pytest.raises(EmbedderUnavailable, match=url):
            built.embed_documents(["a"])


@pytest.mark.parametrize("wrong", [{"key": "another"}, {"model": "another"}], ids=["key", "model"])
def test_a_wrong_key_or_model_is_refused_until_somebody_changes_it(server: EmbeddingServer, wrong: dict[str, str]) -> None:
    server.reset(**wrong)
    with pytest.raises(EmbedderRefused):
        embedder(server).embed_documents(["a"])


@pytest.mark.parametrize("bad", [(0,), (4,), (8,), (2, 3), (0, 5, 8)])
def test_refused_texts_are_named_and_the_others_have_their_vectors(server: EmbeddingServer, bad: tuple[int, ...]) -> None:
    server.behaviour.refused = ("poison",)
    texts = [f"poison {n}" if n in bad else f"text {n}" for n in range(9)]
    with pytest.raises(InputsRejected) as caught:
        embedder(server).embed_documents(texts)
    error = caught.value
    assert isinstance(error, InputRejected)
    assert (list(bad), bad[0]) == (sorted(error.reasons), error.context["index"])
    assert list(bad) == [n for n, vector in enumerate(error.vectors) if vector == b""]
    assert same([unit(text) for n, text in enumerate(texts) if n not in bad], [vector for vector in error.vectors if vector])
    assert "poison" not in "".join(traceback.format_exception(error))


def test_good_texts_beside_a_refused_one_are_embedded_once(server: EmbeddingServer) -> None:
    server.behaviour.refused = ("poison",)
    texts = [f"text {n}" for n in range(32)] + ["poison"]
    with pytest.raises(InputsRejected):
        embedder(server).embed_documents(texts)
    assert {1} == {server.counts.by_text[text] for text in texts[:32]}


def test_an_endpoint_that_refuses_every_text_is_misconfigured_and_quarantines_nothing(server: EmbeddingServer) -> None:
    server.behaviour.refused = ("",)
    with pytest.raises(EmbedderRefused, match="context_length_exceeded"):
        embedder(server).embed_documents(["a", "b"])


def test_a_refused_query_is_rejected(server: EmbeddingServer) -> None:
    server.behaviour.refused = ("poison",)
    with pytest.raises(InputRejected):
        embedder(server).embed_query("poison")


def test_the_branches_of_the_tree_say_what_to_do() -> None:
    assert issubclass(EmbedderUnavailable, Transient)
    assert issubclass(EmbedderRateLimited, Transient)
    assert issubclass(EmbedderAnswerWrong, Transient)
    assert issubclass(InputsRejected, Rejected)
    assert issubclass(EmbedderRefused, Misuse)


def spoil_key(server: EmbeddingServer) -> None:
    server.behaviour.key = "another"


def spoil_answer(server: EmbeddingServer) -> None:
    server.behaviour.garbage = True


def spoil_server(server: EmbeddingServer) -> None:
    server.behaviour.failing = 9


@pytest.mark.parametrize("spoil", [spoil_key, spoil_answer, spoil_server])
def test_the_key_is_in_no_error_traceback_or_log(
    server: EmbeddingServer, caplog: pytest.LogCaptureFixture, spoil: Callable[[EmbeddingServer], None]
) -> None:
    spoil(server)
    built = embedder(server)
    with caplog.at_level(logging.DEBUG), pytest.raises((Transient, Misuse)) as caught:
        built.embed_documents(["a"])
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.context) + repr(vars(built)) + caplog.text
    assert KEY not in shown


def test_a_recorded_space_follows_its_model_to_a_new_address(server: EmbeddingServer) -> None:
    recorded = embedder(server, base_url="http://old.invalid/v1").space
    moved = embedder_of(recorded, table(server))
    assert same([unit("a")], moved.embed_documents(["a"]))
    assert f"Bearer {KEY}" == server.counts.last_authorization


def test_the_key_of_one_endpoint_is_not_sent_to_another(server: EmbeddingServer) -> None:
    recorded = embedder(server).space
    other = EmbeddingTable(provider="openai", base_url="http://new.invalid/v1", model="large", dimensions=8, api_key=KEY)
    embedder_of(recorded, other).embed_documents(["a"])
    assert KEY not in str(server.counts.last_authorization)


def test_a_space_that_this_installation_cannot_make_is_refused(server: EmbeddingServer) -> None:
    from dataclasses import replace

    older = replace(
        embedder(server, provider="local", model=None, dimensions=None).space, space_id="0" * 32, model="use-multilingual-3@0.1.0"
    )
    with pytest.raises(EmbedderRefused, match=r"0\.1\.0"):
        embedder_of(older, EmbeddingTable())


def test_the_server_of_this_kit_stands_in_a_process_of_its_own() -> None:
    tests = Path(__file__).resolve().parents[1]
    with subprocess.Popen(
        [sys.executable, "-m", "kit.embedding_server"], cwd=tests, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        base_url = json.loads(process.stdout.readline())["base_url"]
        root = base_url.removesuffix("/v1")
        urlopen(Request(f"{root}/behaviour", json.dumps({"refused": ["poison"]}).encode())).close()
        built = embedder_for(EmbeddingTable(provider="openai", base_url=base_url, model="m"))
        with pytest.raises(InputRejected):
            built.embed_documents(["poison"])
        with urlopen(f"{root}/counts") as counts:
            assert json.load(counts)["calls"] == 3
        process.stdin.close()
        assert process.wait(20) == 0
