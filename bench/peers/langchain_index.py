"""The peer of a pass: LangChain's `index()` with SQL records, an in-memory vector store and an embedder that costs what hashing costs.

`python langchain_index.py FOLDER`: cold, then again with nothing changed, in one process, imports not counted. JSON on stdout.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from langchain_classic.indexes import SQLRecordManager
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing import index
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

CHUNK_CHARS = 1_200
DIMENSIONS = 256
BATCH = 100


class Hashed(Embeddings):
    """256 numbers from the text's digest: cheaper than our own `hashing`."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        digest = hashlib.shake_128(text.encode()).digest(DIMENSIONS)
        return [byte / 255 for byte in digest]


def chunks_of(folder: Path, splitter: RecursiveCharacterTextSplitter) -> list[Document]:
    documents = [
        Document(path.read_text("utf-8"), metadata={"source": path.relative_to(folder).as_posix()}) for path in sorted(folder.rglob("*.md"))
    ]
    return splitter.split_documents(documents)


def one_pass(folder: Path, records: SQLRecordManager, store: InMemoryVectorStore) -> tuple[float, dict[str, Any]]:
    splitter = RecursiveCharacterTextSplitter(chunk_size=CHUNK_CHARS, chunk_overlap=0)
    started = time.perf_counter()
    chunks = chunks_of(folder, splitter)
    done = index(chunks, records, store, batch_size=BATCH, cleanup="full", source_id_key="source", key_encoder="sha256")
    return time.perf_counter() - started, dict(done)


def main() -> None:
    folder = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        records = SQLRecordManager("bench", db_url=f"sqlite:///{scratch}/records.sqlite3")
        records.create_schema()
        store = InMemoryVectorStore(Hashed())
        cold_seconds, cold = one_pass(folder, records, store)
        unchanged_seconds, unchanged = one_pass(folder, records, store)
    assert unchanged["num_added"] == 0, unchanged
    said = {
        "name": "LangChain index(), SQL records, cleanup=full",
        "versions": {name: version(name) for name in ("langchain-core", "langchain-classic", "langchain-community", "SQLAlchemy")},
        "chunks": cold["num_added"],
        "cold_seconds": round(cold_seconds, 3),
        "unchanged_seconds": round(unchanged_seconds, 3),
    }
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main()
