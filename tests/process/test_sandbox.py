"""Hostile documents against the sandbox: each ends in a named rejection, the next document is read, and nothing is left behind."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import docx
import pytest
from kit.pdfs import pdf_of
from kit.product import Product, await_state

from indexer.load import formats
from indexer.load.formats import DOCX, Format
from indexer.load.registry import loader_of
from indexer.sandbox.parent import DOCUMENTS_A_CHILD, Sandbox
from store.clock import SystemClock
from store.config import LoadTable
from store.errors import LoaderCrashed, LoaderLimitReached, LoaderUnavailable, Rejected

HOSTILE = "application/x-hostile"


def word(text: str = "hello") -> bytes:
    document = docx.Document()
    document.add_paragraph(text)
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def bomb(*, declared: int = 64 << 20, entries: int = 1) -> bytes:
    """A document whose parts unpack to far more than they are."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        for number in range(entries):
            archive.writestr(f"word/document{number}.xml", b"\0" * (declared // entries))
    return file.getvalue()


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(LoadTable(seconds_max=20), SystemClock()) as opened:
        yield opened


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A format whose loader does to its process what the document says; the child finds it on its path."""
    (tmp_path / "hostile_loader.py").write_text(LOADER, "utf-8")
    (tmp_path / "sitecustomize.py").write_text(
        "import indexer.load.formats as formats\n"
        f"formats.BY_TYPE = dict(formats.BY_TYPE) | {{{HOSTILE!r}: formats.Format({HOSTILE!r}, 'hostile_loader:load', is_risky=True)}}\n",
        "utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    table = dict(formats.BY_TYPE) | {HOSTILE: Format(HOSTILE, "hostile_loader:load", is_risky=True)}
    for module in ("indexer.load.formats", "indexer.load.detect", "indexer.load.registry", "indexer.sandbox.parent"):
        monkeypatch.setattr(f"{module}.BY_TYPE", table)
    loader_of.cache_clear()


LOADER = """
import ctypes, os, sys
from store.model import LoadedText

def load(content, media_type):
    match content.decode():
        case "segfault":
            ctypes.string_at(0)
        case "exit":
            os._exit(7)
        case "memory":
            kept = [bytearray(1 << 26) for _ in range(64)]
        case "endless":
            while True:
                pass
        case "print":
            print("noise", flush=True)
            os.write(1, b"more noise")
            os.write(2, b"and more")
        case "break":
            raise KeyError("unforeseen")
        case "recursion":
            def deeper(): return deeper()
            deeper()
        case "environment":
            return LoadedText("\\n".join(sorted(os.environ)), media_type)
        case "descriptors":
            return LoadedText(" ".join(sorted(os.listdir("/proc/self/fd"), key=int)), media_type)
        case "long":
            return LoadedText("x" * (3 << 20), media_type)
    return LoadedText("read: " + content.decode(), media_type)
"""


def read(sandbox: Sandbox, what: str) -> str:
    return sandbox.load("document", what.encode(), HOSTILE).text


@pytest.mark.parametrize("content", [bomb(), bomb(entries=200), bomb(declared=600 << 20, entries=3)])
def test_a_bomb_is_rejected_before_it_is_unpacked_and_the_next_document_is_read(sandbox: Sandbox, content: bytes) -> None:
    with pytest.raises(LoaderLimitReached, match="unpack"):
        sandbox.load("bomb.docx", content)
    assert sandbox.load("next.docx", word()).text == "hello"


def test_too_many_parts_are_rejected(sandbox: Sandbox) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("word/document.xml", "<x/>")
        for number in range(20_001):
            archive.writestr(f"{number}", "")
    with pytest.raises(LoaderLimitReached, match="parts"):
        sandbox.load("many.docx", file.getvalue())


def test_entities_that_expand_are_refused(sandbox: Sandbox) -> None:
    entities = "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(12))
    xml = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">{entities}]><x>&m;</x>'
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(word())) as original, zipfile.ZipFile(file, "w") as archive:
        for entry in original.infolist():
            archive.writestr(entry, xml if entry.filename == "word/document.xml" else original.read(entry))
    with pytest.raises(Rejected):
        sandbox.load("entities.docx", file.getvalue())
    with pytest.raises(Rejected, match="entities"):
        sandbox.load("entities.rss", xml.encode())
    assert sandbox.load("next.docx", word()).text == "hello"


@pytest.mark.parametrize("crash", ["segfault", "exit"])
def test_a_crash_is_a_rejection_after_one_more_try_and_the_next_document_is_read(hostile: None, sandbox: Sandbox, crash: str) -> None:
    with pytest.raises(LoaderCrashed, match="twice"):
        read(sandbox, crash)
    assert read(sandbox, "next") == "read: next"


def test_too_much_memory_is_a_rejection(hostile: None, sandbox: Sandbox) -> None:
    with pytest.raises(LoaderLimitReached, match="memory"):
        read(sandbox, "memory")
    assert read(sandbox, "next") == "read: next"


def test_a_reader_that_never_ends_is_stopped(hostile: None) -> None:
    with Sandbox(LoadTable(seconds_max=1.5), SystemClock()) as sandbox:
        with pytest.raises(LoaderLimitReached, match=r"longer than 1\.5 seconds"):
            read(sandbox, "endless")
        assert read(sandbox, "next") == "read: next"


def test_a_text_beyond_the_limit_is_a_rejection(hostile: None) -> None:
    with Sandbox(LoadTable(text_chars_max=1 << 20), SystemClock()) as sandbox, pytest.raises(LoaderLimitReached, match="characters"):
        read(sandbox, "long")


def test_endless_recursion_is_a_rejection(hostile: None, sandbox: Sandbox) -> None:
    with pytest.raises(LoaderLimitReached, match="nested"):
        read(sandbox, "recursion")


def test_an_unforeseen_exception_is_a_fault_of_ours_and_no_rejection(hostile: None, sandbox: Sandbox) -> None:
    with pytest.raises(Exception, match="KeyError") as raised:
        read(sandbox, "break")
    assert not isinstance(raised.value, Rejected)
    assert read(sandbox, "next") == "read: next"


def test_what_a_library_prints_does_not_reach_the_answer(hostile: None, sandbox: Sandbox) -> None:
    assert read(sandbox, "print") == "read: print"


def test_no_secret_and_no_descriptor_of_ours_reaches_the_child(hostile: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EVERCURRENT_INDEXER__EMBEDDING__API_KEY", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with (tmp_path / "open").open("w") as file, Sandbox(LoadTable(), SystemClock()) as sandbox:
        os.set_inheritable(file.fileno(), True)
        assert set(read(sandbox, "environment").split()) <= {"PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "LC_CTYPE"}
        assert len(read(sandbox, "descriptors").split()) <= 5


def test_a_child_that_cannot_begin_is_no_fault_of_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os; os._exit(9)\n", "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Sandbox(LoadTable(), SystemClock()) as sandbox:
        with pytest.raises(LoaderUnavailable, match="with code 9"):
            sandbox.load("a.docx", word())
        monkeypatch.delenv("PYTHONPATH")
        assert sandbox.load("a.docx", word()).text == "hello"


def test_a_child_is_replaced_after_many_documents(hostile: None, sandbox: Sandbox) -> None:
    first = pid_of(sandbox)
    for _ in range(DOCUMENTS_A_CHILD):
        read(sandbox, "x")
    assert pid_of(sandbox) != first


def pid_of(sandbox: Sandbox) -> int:
    sandbox.load("a.docx", word())
    assert sandbox._child is not None
    return sandbox._child.pid


def test_the_child_dies_with_its_parent_however_that_dies(tmp_path: Path) -> None:
    script = (
        "import sys; from indexer.sandbox.parent import Sandbox; from store.config import LoadTable; from store.clock import SystemClock\n"
        "s = Sandbox(LoadTable(), SystemClock()); s.load('a.docx', open(sys.argv[1], 'rb').read()); print(s._child.pid, flush=True)\n"
        "input()"
    )
    (tmp_path / "a.docx").write_bytes(word())
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "a.docx")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert is_alive(child)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    await_state(lambda: not is_alive(child), "the child is gone", 10)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.process
def test_a_folder_of_good_and_hostile_documents_ends_with_the_good_ones_served(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "bomb.docx").write_bytes(bomb())
    (docs / "good.docx").write_bytes(word("a phrase in a word document"))
    (docs / "good.pdf").write_bytes(pdf_of([["a phrase in a PDF"], ["second page"]]))
    (docs / "scan.pdf").write_bytes(pdf_of([[]]))
    (docs / "damaged.pdf").write_bytes(b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\n")
    (docs / "renamed.txt").write_bytes(pdf_of([["a PDF under a text's name"]]))
    (docs / "plain.md").write_text("a plain neighbour\n", "utf-8")
    product = Product(tmp_path / "data", {"EVERCURRENT_INDEXER__EMBEDDING__PROVIDER": "hashing"})
    planned = product.succeed("plan", str(docs), "--json").json
    answer = product.run("sync", str(docs), "--json")
    assert (answer.code, {failure["document"]: failure["code"] for failure in answer.json["failures"]}) == (
        1,
        {"bomb.docx": "loader_limit", "damaged.pdf": "document_unparsable"},
    )
    assert (planned["documents"]["failed"], planned["embedded"]) == (2, answer.json["embedded"])
    rows = {row["document"]: row for row in product.succeed("documents", "--json").json["documents"]}
    assert (rows["scan.pdf"]["state"], rows["scan.pdf"]["code"]) == ("empty", "loaded_with_faults")
    assert "no text" in rows["scan.pdf"]["message"]
    exported = product.succeed("export").lines
    assert {row["document"] for row in exported} == {"good.docx", "good.pdf", "renamed.txt", "plain.md"}
    assert {row["metadata"].get("page") for row in exported if row["document"] == "good.pdf"} == {1}
    (docs / "damaged.pdf").write_bytes(pdf_of([["whole again"]]))
    product.run("sync", str(docs))
    assert "damaged.pdf" in {row["document"] for row in product.succeed("export").lines}
    assert DOCX in {row["metadata"]["media_type"] for row in exported}
