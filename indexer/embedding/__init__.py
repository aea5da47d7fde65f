"""Texts in, vectors out: one provider a file; batching is pure."""
