"""Diagnostics that an editor asks for, instead of those that are published."""
