"""The loaders: bytes in, text with marks out; what is not text is refused by name."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.load.registry import claims, load, media_type_of
from store.errors import DocumentUnparsable, Rejected, TextUndecodable
from store.model import BlockKind, Heading, LoadedText

BYTES = st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))
SAMPLE = "Köln hat einen Dom.\nUnd viele Brücken über den Rhein, sehr schöne sogar.\n"


def markdown(source: str) -> LoadedText:
    return load("a.md", source.encode())


def html(source: str) -> LoadedText:
    return load("a.html", source.encode())


@pytest.mark.parametrize(
    ("uri", "media_type"),
    [
        ("a.txt", "text/plain"),
        ("deep/er/A.MD", "text/markdown"),
        ("x.htm", "text/html"),
        ("x.py", "text/x-python"),
        ("rows.csv", "text/csv"),
        ("README", "text/plain"),
        ("src/Makefile", "text/x-source"),
        ("a.pdf", "application/pdf"),
        ("a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("a.png", None),
        ("folder.md/file", None),
        (".md", None),
        ("name.", None),
    ],
)
def test_a_uri_is_claimed_by_its_extension(uri: str, media_type: str | None) -> None:
    assert media_type_of(uri) == media_type
    assert claims(uri) == (media_type is not None)


def test_claims_costs_no_format_library() -> None:
    script = "import sys, indexer.load.registry as r; r.claims('a.md'); print([m for m in sys.modules if m.split('.')[0] in " + (
        "('yaml', 'markdown_it', 'selectolax', 'charset_normalizer', 'numpy', 'pydantic')])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_a_byte_order_mark_decides_and_is_not_kept(encoding: str) -> None:
    assert load("a.txt", ("\ufeff" + SAMPLE).encode(encoding)).text == SAMPLE


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16-le", "utf-16-be"])
def test_an_encoding_without_a_mark_is_recognised(encoding: str) -> None:
    assert load("a.txt", SAMPLE.encode(encoding)).text == SAMPLE


def test_chinese_and_japanese_encodings_are_recognised() -> None:
    assert "删除的文档" in load("a.txt", ("本系统只保留改变的部分，删除的文档不再返回。" * 5).encode("gb18030")).text
    assert "テキスト" in load("a.txt", ("日本語のテキスト。" * 9).encode("shift-jis")).text


def test_nul_and_lone_surrogates_go_and_line_ends_are_one() -> None:
    assert load("a.txt", b"a\0b\r\nc\rd\n").text == "ab\nc\nd\n"
    assert load("a.txt", b"\xff\xfe" + "a\ud800b".encode("utf-16-le", "surrogatepass")).text == "ab"


def test_a_few_wrong_bytes_are_a_fault_and_cost_no_mojibake() -> None:
    loaded = load("a.log", ("日本語の行。\n" * 50).encode() + b"\xe6\x97")
    assert loaded.text == "日本語の行。\n" * 50 + "\ufffd"
    assert [fault.code for fault in loaded.faults] == ["bytes_undecodable"]


@pytest.mark.parametrize(
    "content",
    [bytes(range(256)) * 8, b"\0" * 500, b"\x01\x02\x03\xff" * 50, b"text" + b"\x00\x01\x02\x03" * 100],
    ids=["all bytes", "only NUL", "controls", "text then binary"],
)
@pytest.mark.parametrize("uri", ["a.txt", "a.md", "a.html"])
def test_binary_bytes_are_refused(uri: str, content: bytes) -> None:
    with pytest.raises(TextUndecodable):
        load(uri, content)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\n%%EOF", "application/pdf"),
        (b"PK\x03\x04\x14\x00", "ZIP"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old office"),
        (b"{\\rtf1\\ansi hello}", "RTF"),
        (b"\x89PNG\r\n\x1a\n", "image"),
        (b"\x1f\x8b\x08\x00", "archive"),
        (b"SQLite format 3\x00", "database"),
    ],
)
def test_a_container_under_a_text_name_is_refused_by_its_name(content: bytes, name: str) -> None:
    with pytest.raises(DocumentUnparsable, match=name):
        load("notes.txt", content)


def test_a_text_that_only_speaks_of_pdf_is_read() -> None:
    assert load("a.txt", b"%PDF-1.4 is how such a file begins.").text == "%PDF-1.4 is how such a file begins."


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(["a.txt", "a.md", "a.html", "a.csv"]), BYTES)
def test_any_bytes_give_a_clean_text_with_marks_inside_it_or_are_rejected(uri: str, content: bytes) -> None:
    try:
        loaded = load(uri, content)
    except Rejected:
        return
    loaded.text.encode()
    assert "\0" not in loaded.text
    assert "\r" not in loaded.text
    starts = [heading.start for heading in loaded.headings]
    assert starts == sorted(starts)
    assert all(0 <= start < len(loaded.text) for start in starts)
    assert all(0 <= block.start < block.end <= len(loaded.text) for block in loaded.blocks)


# --- Markdown -----------------------------------------------------------------------------------------------


def test_front_matter_becomes_metadata_and_leaves_the_text() -> None:
    loaded = markdown("---\ntitle: 'A: b'\nlang: de\ndate: 2024-05-01\nat: 2024-05-01 10:00:00\ntags: [x, y]\n---\n# Head\n\nText\n")
    assert (loaded.title, loaded.language, loaded.text) == ("A: b", "de", "# Head\n\nText\n")
    assert loaded.metadata == {"date": "2024-05-01", "at": "2024-05-01T10:00:00", "tags": ["x", "y"]}


def test_a_reserved_name_in_front_matter_is_prefixed() -> None:
    loaded = markdown("---\nversion: 2.0\nsource: wiki\nsection: s\n---\nText")
    assert loaded.metadata == {"doc_version": 2.0, "doc_source": "wiki", "section": "s"}


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        ("---\ntitle: [open\n---\nText\n", ["front_matter_malformed"]),
        ("---\ntitle: {{ page }}\n---\nText\n", ["front_matter_malformed"]),
        ("---\njust words\n---\nText\n", []),
        ("---\nno end", []),
        ("text\n---\ntitle: x\n---\n", []),
    ],
)
def test_what_is_no_front_matter_stays_text(source: str, faults: list[str]) -> None:
    loaded = markdown(source)
    assert loaded.text == source
    assert [fault.code for fault in loaded.faults] == faults


def test_a_rule_inside_a_block_scalar_or_the_body_ends_no_front_matter() -> None:
    loaded = markdown("---\nsummary: |\n  two\n  ---\n  lines\n---\nabove\n\n---\n\nbelow\n")
    assert loaded.text == "above\n\n---\n\nbelow\n"
    assert loaded.metadata == {"summary": "two\n---\nlines\n"}


def test_metadata_beyond_the_limits_is_dropped_and_said() -> None:
    many = markdown("---\n" + "".join(f"k{n}: {n}\n" for n in range(70)) + "---\nText")
    assert list(many.metadata) == [f"k{n}" for n in range(64)]
    assert [fault.code for fault in many.faults] == ["metadata_dropped"] * 6
    large = markdown(f"---\na: 1\nb: {'x' * 17_000}\nc: 2\n---\nText")
    assert dict(large.metadata) == {"a": 1, "c": 2}
    odd = markdown("---\na: .nan\nb: &x [*x]\nc: Text\nd: !!binary aGk=\n---\nText")
    assert odd.metadata == {}
    assert len(odd.faults) == 4


def test_a_yaml_set_has_one_order_in_every_process() -> None:
    assert markdown("---\nkinds: !!set {b, a, c}\n---\nText").metadata == {"kinds": ["a", "b", "c"]}


@pytest.mark.parametrize("value", ["!!timestamp soon", "!!bool perhaps", '!!int ""', '!!float ""'])
def test_front_matter_whose_tags_lie_is_kept_as_text(value: str) -> None:
    loaded = markdown(f"---\nx: {value}\n---\nText.\n")
    assert ([fault.code for fault in loaded.faults], loaded.text.startswith("---")) == (["front_matter_malformed"], True)


@pytest.mark.parametrize("entry", ["x: {number}", "title: {number}", "? {number}\n: 1", "x: !!set {{{number}}}", "x: {{? {number} : 1}}"])
def test_a_number_of_a_thousand_digits_costs_its_key_and_not_the_document(entry: str) -> None:
    loaded = markdown("---\n" + entry.format(number="0x" + "f" * 5000) + "\n---\nText.\n")
    assert loaded.text == "Text.\n"
    assert len(json.dumps(dict(loaded.metadata))) < 1000


def test_an_alias_bomb_in_front_matter_is_no_bomb() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    loaded = markdown("---\n" + "\n".join(lines) + "\n---\nText")
    assert loaded.text == "Text"
    assert "metadata_dropped" in {fault.code for fault in loaded.faults}


def test_headings_are_found_outside_fences_lists_and_quotations() -> None:
    source = "# One *two* [three](x) {#id}\n\n```\n# no\n```\n\n~~~\n## no\n~~~\n\n    # no\n\n> # no\n\n- # no\n\n"
    source += "Setext\n===\n\n### `Deep` & &amp; more ###\n"
    assert markdown(source).headings == (
        Heading(0, 1, "One two three"),
        Heading(source.index("Setext"), 1, "Setext"),
        Heading(source.index("###"), 3, "Deep & & more"),
    )


def test_the_title_is_the_front_matters_else_the_first_heading_of_level_one() -> None:
    assert markdown("## a\n\n# b\n\n# c\n").title == "b"
    assert markdown("---\ntitle: t\n---\n# b\n").title == "t"
    assert markdown("words").title is None


def test_fences_and_tables_are_blocks() -> None:
    source = "a\n\n```py\nx = 1\n\ny\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nend\n"
    loaded = markdown(source)
    assert [(loaded.text[block.start : block.end], block.kind) for block in loaded.blocks] == [
        ("```py\nx = 1\n\ny\n```", BlockKind.FENCE),
        ("| a | b |\n|---|---|\n| 1 | 2 |", BlockKind.TABLE),
    ]


# --- HTML ---------------------------------------------------------------------------------------------------


def test_html_gives_its_visible_text_in_reading_order() -> None:
    loaded = html(
        "<!doctype html><html lang=de><head><title> A &amp;\n b</title><style>s</style></head>"
        "<body><h1>Head <b>bold</b></h1>one <a href=x>link</a>,"
        "\n two<br>three<p hidden>no</p><script>no</script><template>no</template><noscript>no</noscript>"
        "<!-- no --><div>x<ul><li>i<li>j</ul></div>"
    )
    assert loaded.text == "Head bold\n\none [link](x), two\nthree\n\nx\n\n- i\n- j"
    assert (loaded.title, loaded.language, loaded.headings) == ("A & b", "de", (Heading(0, 1, "Head bold"),))


def test_table_rows_are_lines_and_empty_cells_keep_their_place() -> None:
    loaded = html("a<table><tr><th>A<th>B<th>C</tr><tr><td>1<td></td><td><p>3</p></tr><tr><td> <td>5</tr></table>b")
    assert loaded.text == "a\n\nA | B | C\n1 | | 3\n| 5\n\nb"
    assert [(loaded.text[block.start : block.end], block.kind) for block in loaded.blocks] == [("A | B | C\n1 | | 3\n| 5", BlockKind.TABLE)]


def test_preformatted_text_keeps_its_spaces() -> None:
    loaded = html("<p>a</p><pre>\nx\n  y  z\n\nw\n</pre>b")
    assert loaded.text == "a\n\nx\n  y  z\n\nw\n\nb"
    assert [loaded.text[block.start : block.end] for block in loaded.blocks] == ["x\n  y  z\n\nw"]


def test_html_is_decoded_as_it_declares_and_as_text_when_that_fails() -> None:
    assert load("a.html", "<meta charset='iso-8859-2'><p>żółw</p>".encode("iso-8859-2")).text == "żółw"
    assert load("a.html", "<meta charset=gb2312><p>镕基</p>".encode("gb18030")).text == "镕基"
    assert load("a.html", "<meta charset=ascii><p>żółw</p>".encode()).text == "żółw"
    assert load("a.html", "<meta charset=nonsense><p>żółw</p>".encode()).text == "żółw"


def test_deeply_nested_html_is_read() -> None:
    assert html("<div>" * 5000 + "deep" + "</div>" * 5000).text == "deep"
