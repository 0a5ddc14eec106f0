"""Products with weights in MLX's quantization format."""
