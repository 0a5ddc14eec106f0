"""Complex numbers as pairs of real ones, for dtypes that MLX lacks."""
