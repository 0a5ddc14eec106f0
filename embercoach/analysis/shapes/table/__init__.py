"""What MLX's functions return for given shapes and dtypes, and what they refuse.

Each module registers transfer functions (see ``registry``) for one kind of operation. They are
tested against MLX itself: tests/analysis/shapes draws calls and compares.
"""
