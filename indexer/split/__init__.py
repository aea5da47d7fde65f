"""Text in, pieces out: pure, one strategy a file."""
