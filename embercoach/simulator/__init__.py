"""Runs Metal kernels on a CPU, from the source that MLX generates, and checks them."""
