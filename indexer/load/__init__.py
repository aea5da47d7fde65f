"""Bytes in, text with its structure out: pure, one format a file."""
