"""ANSWERS: its own process, read-only."""
