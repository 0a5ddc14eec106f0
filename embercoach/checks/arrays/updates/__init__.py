"""Checks of writes to arrays and updates in place."""
