"""Dense search: the in-memory replica and its exact scan."""
