"""Uploaded bytes: kept by content, a folder a namespace, until no row of the ledger wants them."""
