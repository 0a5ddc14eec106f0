"""The engine: from paths to findings, with cache, workers and suppressions."""
