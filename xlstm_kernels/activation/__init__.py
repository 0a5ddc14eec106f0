"""Activation functions: one operator a module."""
