"""Sizes, shapes and dtypes of arrays: what is known of them before the program runs."""
