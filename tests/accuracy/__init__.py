"""The accuracy measurement: a hand-labelled sample of real MLX code judges the linter."""
