"""Normalisations: one operator a module."""
