"""Checks of the attributes and modes of modules."""
