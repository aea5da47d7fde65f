"""The hashing embedder: similar texts are near, bits depend on nothing but the text."""

from __future__ import annotations

import hashlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.embedding import hashing
from indexer.embedding.hashing import embed


def cosine(a: str, b: str) -> float:
    left, right = (np.frombuffer(vector, dtype="<f4") for vector in embed([a, b]))
    return float(left @ right)


@settings(deadline=None)
@given(st.lists(st.text(), max_size=6), st.integers(0, 5))
def test_a_vector_is_equal_in_bits_in_every_batch(texts: list[str], turn: int) -> None:
    alone = [embed([text])[0] for text in texts]
    assert alone == embed(texts)
    assert alone[turn:] + alone[:turn] == embed(texts[turn:] + texts[:turn])


@given(st.text())
def test_a_vector_has_unit_length_or_is_missing(text: str) -> None:
    vector = np.frombuffer(embed([text])[0], dtype="<f4").astype(np.float64)
    assert len(vector) == 0 or abs(np.linalg.norm(vector) - 1) < 1e-6


def test_bits_stay_what_they_are_until_the_model_gets_a_new_number() -> None:
    texts = ["The quick brown fox", "敏捷的棕色狐狸", "naïve café 🦊 42", "한국어 ひらがな カタカナ", "\U00020000\U00020001"]
    digest = hashlib.blake2b(b"".join(embed(texts)), digest_size=8).hexdigest()
    assert digest == "c698d4e592baf6b0"


def test_a_batch_larger_than_a_group_is_cut_at_texts() -> None:
    texts = [f"word{number} " * 400 for number in range(20)]
    assert sum(map(len, texts)) > 4 * hashing.GROUP_CHARS_MAX
    assert [embed([text])[0] for text in texts] == embed(texts)


def test_no_feature_reaches_from_one_text_into_the_next() -> None:
    assert embed(["ab", "cd"])[0] == embed(["ab", "xyz"])[0]
    assert embed(["狐", "狸"]) == [embed(["狐"])[0], embed(["狸"])[0]]


def test_the_same_words_in_another_order_are_near_and_other_words_are_far() -> None:
    assert cosine("restart the ingest worker", "the ingest worker, restart") > 0.8
    assert abs(cosine("restart the ingest worker", "paysage impressionniste")) < 0.3
    assert cosine("indexing documents", "index a document") > 0.3


def test_case_does_not_matter() -> None:
    assert embed(["QUEUE Depth"]) == embed(["queue depth"])


def test_chinese_texts_that_share_bigrams_are_near() -> None:
    assert cosine("如何配置端口", "端口配置说明") > 0.4
    assert abs(cosine("如何配置端口", "春天花开了")) < 0.3


def test_a_text_without_letters_has_no_vector() -> None:
    assert embed(["", " \n", "--- !!! ...", "，。！"]) == [b"", b"", b"", b""]


def test_a_repeated_word_does_not_drown_the_others() -> None:
    assert cosine("alpha " * 50 + "beta", "beta") > 0.05
