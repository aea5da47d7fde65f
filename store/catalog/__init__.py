"""The durable truth: ledger, documents, chunks, vectors, change log. One adapter a file, one contract suite over all."""
