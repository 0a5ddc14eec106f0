"""Checks of ranges, digits and whole numbers of dtypes."""
