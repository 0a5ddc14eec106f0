"""Checks of PyTorch programs, loaded for files that mention torch."""
