"""Where documents come from: a folder that is scanned and fetched from, a watch on it."""
