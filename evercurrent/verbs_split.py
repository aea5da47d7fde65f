"""`split`: what a file is cut into, and which chunks an edit would embed again. Reads the file and the configuration, opens no index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from evercurrent.call import Call
from evercurrent.command_line import Argument, Option
from evercurrent.say import counted, for_people, note, say, say_json
from store.errors import FolderMissing, Misuse

if TYPE_CHECKING:
    from store.model import Chunk, LoadedText


def split(
    call: Call,
    file: Annotated[str, Argument(metavar="FILE", show_default=False)],
    diff: Annotated[
        str | None, Option("--diff", metavar="OLD", help="An older version of FILE: shows what would be embedded again.")
    ] = None,
) -> int:
    """Shows the chunks that FILE is cut into, with their offsets; with --diff OLD which of them an index of OLD would embed again."""
    loaded, chunks = cut_file(call, file)
    known = frozenset() if diff is None else frozenset(chunk.input_hash for chunk in cut_file(call, diff, named=file)[1])
    new = [diff is not None and chunk.input_hash not in known for chunk in chunks]
    if call.as_json:
        say_json(
            {
                "document": Path(file).name,
                "title": loaded.title,
                "media_type": loaded.media_type,
                "characters": len(loaded.text),
                "faults": [{"code": fault.code, "message": fault.message} for fault in loaded.faults],
                "embedded": sum(new) if diff is not None else len({chunk.input_hash for chunk in chunks}),
                "chunks": [chunk_json(chunk, is_new, diff) for chunk, is_new in zip(chunks, new, strict=True)],
            }
        )
        return 0
    show(loaded, chunks, new)
    for fault in loaded.faults:
        note(fault.message)
    ending = "" if diff is None else f"; {sum(new)} of them would be embedded again"
    note(f"{counted(len(chunks), 'chunk')} of {len(loaded.text)} characters, read as {loaded.media_type}{ending}.")
    return 0


def cut_file(call: Call, path: str, named: str | None = None) -> tuple[LoadedText, tuple[Chunk, ...]]:
    """The text of a file and its chunks, as a worker would make them. `named`: the name that says what it is."""
    from indexer.identity import identify
    from indexer.recipe import settings_of
    from indexer.sandbox.parent import Sandbox
    from indexer.split.cut import cut

    table = call.config.indexer
    try:
        with open(path, "rb") as file:
            content = file.read(table.document_bytes_max + 1)
    except FileNotFoundError as error:
        raise FolderMissing(path=path) from error
    except OSError as error:
        raise Misuse(f"{path} cannot be read: {error.strerror}.") from error
    if len(content) > table.document_bytes_max:
        raise Misuse(f"{path} has more than {table.document_bytes_max} bytes (indexer.document_bytes_max).")
    with Sandbox(table.load, call.clock) as sandbox:
        loaded = sandbox.load(Path(named or path).name, content)
    document = call.home.document(Path(named or path).name)
    return loaded, tuple(identify(document, loaded, cut(loaded, settings_of(table.split))))


def chunk_json(chunk: Chunk, is_new: bool, diff: str | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "chunk_id": chunk.chunk_id.hex(),
        "start": chunk.start,
        "end": chunk.end,
        "text": chunk.text,
        "metadata": dict(chunk.metadata),
    }
    return row if diff is None else row | {"embedded": is_new}


def show(loaded: LoadedText, chunks: Sequence[Chunk], new: Sequence[bool]) -> None:
    """A head and the text of each chunk; for people in two colours by turns, what would be embedded in a third."""
    if not for_people():
        for chunk, is_new in zip(chunks, new, strict=True):
            say(f"{'+' if is_new else ' '} {chunk.start}-{chunk.end} {' '.join(chunk.text.split())}")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    if loaded.title:
        console.print(Text(loaded.title, style="bold"))
    for number, (chunk, is_new) in enumerate(zip(chunks, new, strict=True)):
        under = " › ".join(chunk.metadata.get("headings", ()))
        page = f" page {chunk.metadata['page']}" if "page" in chunk.metadata else ""
        mark = "+ " if is_new else ""
        console.print(Text(f"{mark}{number} [{chunk.start}, {chunk.end}) {len(chunk.text)} characters{page} {under}".rstrip(), style="dim"))
        console.print(Text(chunk.text, style="green" if is_new else ("cyan", "default")[number % 2]))


VERBS = {"split": split}
HIDDEN: frozenset[str] = frozenset()
