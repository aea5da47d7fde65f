"""The multipart reader yields what was put in, however the bytes are cut on the way."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.multipart import HEAD_BYTES_MAX, Multipart, MultipartWrong, PartEnd, PartHead

TYPE = 'multipart/form-data; boundary="b0und"'


def body_of(parts: list[tuple[str, bytes]], boundary: str = "b0und") -> bytes:
    whole = b"".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + content + b"\r\n"
        for name, content in parts
    )
    return whole + f"--{boundary}--\r\n".encode()


def read(body: bytes, cuts: list[int] | None = None, content_type: str = TYPE) -> list[tuple[str | None, bytes]]:
    reader, found = Multipart(content_type), []
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts or []), len(body)]
    for start, end in pairwise(edges):
        for piece in reader.feed(body[start:end]):
            match piece:
                case PartHead():
                    head, content = piece, b""
                case bytes():
                    content += piece
                case PartEnd():
                    found.append((head.filename, content))
    reader.finish()
    return found


PARTS = st.lists(
    st.tuples(
        st.text("abc/ é字.", min_size=1, max_size=8),
        st.binary(max_size=60) | st.text("\r\n-b0und", max_size=40).map(lambda text: text.encode()),
    ),
    max_size=4,
).filter(lambda parts: all(b"\r\n--b0und" not in b"\r\n" + content for _, content in parts))


@given(PARTS, st.lists(st.integers(0, 400), max_size=12))
def test_what_was_put_in_comes_out_however_it_is_cut(parts: list[tuple[str, bytes]], cuts: list[int]) -> None:
    assert read(body_of(parts), cuts) == parts


@given(PARTS)
def test_byte_by_byte_is_the_same(parts: list[tuple[str, bytes]]) -> None:
    body = body_of(parts)
    assert read(body, list(range(len(body)))) == parts


@given(PARTS.filter(bool), st.data())
def test_a_body_that_is_cut_short_is_refused(parts: list[tuple[str, bytes]], draw: st.DataObject) -> None:
    body = body_of(parts)
    with pytest.raises(MultipartWrong):
        read(body[: draw.draw(st.integers(0, len(body) - 5))])


def test_file_names_are_read_as_clients_spell_them() -> None:
    for spelled, meant in (
        ('filename="guide/a b.md"', "guide/a b.md"),
        ('filename="字.md"', "字.md"),
        ('filename="a%22b.md"', 'a"b.md'),
        ("filename=plain.md", "plain.md"),
        ("filename*=UTF-8''%E5%AD%97%22.md", '字".md'),
        ('filename=""', ""),
        ("x=1", None),
    ):
        body = f'--b0und\r\nContent-Disposition: form-data; name="f"; {spelled}\r\nX-Other: é\r\n\r\nx\r\n--b0und--'.encode()
        (head, *_) = list(Multipart(TYPE).feed(body))
        assert isinstance(head, PartHead)
        assert (head.name, head.filename, head.headers["x-other"]) == ("f", meant, "é")


def test_preamble_epilogue_and_an_empty_head_do_no_harm() -> None:
    body = b"hello\r\n--b0und \t\r\n\r\nx\r\n--b0und--\r\n--b0und\r\nmore"
    assert read(body) == [(None, b"x")]


@pytest.mark.parametrize("content_type", ["multipart/form-data", "text/plain", "multipart/form-data; boundary=", "", 'a; boundary="ö"'])
def test_a_type_without_a_boundary_is_refused(content_type: str) -> None:
    with pytest.raises(MultipartWrong):
        Multipart(content_type)


def test_heads_have_a_limit_and_nothing_else_follows_a_boundary() -> None:
    with pytest.raises(MultipartWrong):
        list(Multipart(TYPE).feed(b"--b0und\r\n" + b"x" * (HEAD_BYTES_MAX + 1)))
    with pytest.raises(MultipartWrong):
        list(Multipart(TYPE).feed(b"--b0undary\r\n\r\n"))


def test_a_preamble_without_end_is_not_kept() -> None:
    reader = Multipart(TYPE)
    for _ in range(100):
        assert list(reader.feed(b"x" * 10_000)) == []
    assert len(reader._buffer) < 100
