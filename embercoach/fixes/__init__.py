"""Fixes: source text as it stands on disk, edits applied without conflict, safe writing."""
