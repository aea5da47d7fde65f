"""Keyword search: BM25 in tantivy, an index a namespace and collection, CJK-aware."""
