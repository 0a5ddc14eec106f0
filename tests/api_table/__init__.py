"""Writes the table of MLX's API from an installed MLX: `python -m tests.api_table.generate`."""
